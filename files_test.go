package troupe

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// openers are the functions that open or inspect a file by name.
var openers = map[string][]string{
	"os": {
		"Open", "OpenFile", "OpenInRoot", "OpenRoot", "ReadFile", "ReadDir", "DirFS", "Stat", "Lstat",
	},
	"io/ioutil":             {"ReadFile", "ReadDir"},
	"path/filepath":         {"Glob", "Walk", "WalkDir"},
	"syscall":               {"Open", "Openat", "Stat", "Lstat"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2", "Stat", "Lstat"},
}

// fileOpeners are the source files that may use openers in packages that handle models, with the
// reason. Only modelfile opens files below the folder of a model or adapter.
var fileOpeners = map[string]string{
	"node/stored/secret_file.go":      "the cluster secret in the data folder",
	"modelfile/open.go":               "the files of models and adapters",
	"modelfile/roots.go":              "the folders of --model-roots",
	"engine/kvstore/open.go":          "KV blocks on disk",
	"engine/residency/disk_image.go":  "images of weights in the data folder",
	"engine/residency/disk_images.go": "images of weights in the data folder",
	"engine/residency/disk_of.go":     "the disk of a folder, which is not opened",
	"gateway/apikey/keys.go":          "the file of API keys",
}

// TestModelFilesAreOpenedInOnePlace checks that only modelfile opens files of models. Without its
// checks an open may block forever, take all memory, or escape --model-roots.
func TestModelFilesAreOpenedInOnePlace(t *testing.T) {
	seen := make(map[string]bool)
	for _, top := range []string{"actors", "control", "core", "engine", "gateway", "messages", "modelfile", "node"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, call := range opened(parsed) {
				if seen[path] = true; fileOpeners[path] == "" {
					t.Errorf("%s uses %s; open model files with modelfile, or add the file to fileOpeners", path, call)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path := range fileOpeners {
		if !seen[path] {
			t.Errorf("%s opens no files; remove it from fileOpeners", path)
		}
	}
}

// opened lists the uses of openers in a file, under any import name.
func opened(file *ast.File) (found []string) {
	names := make(map[string]string) // import path by local name
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
		if _, opens := openers[path]; opens && name == "." {
			found = append(found, path+" imported as .")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && slices.Contains(openers[names[pkg.Name]], s.Sel.Name) {
				found = append(found, fmt.Sprintf("%s.%s", names[pkg.Name], s.Sel.Name))
			}
		}
		return true
	})
	return found
}

// TestOpenersAreFound checks that each kind of use is found.
func TestOpenersAreFound(t *testing.T) {
	for text, want := range map[string]int{
		`package p; import "os"; var x, _ = os.ReadFile("x")`:                        1,
		`package p; import f "os"; var open = f.Open`:                                1,
		`package p; import . "os"; var x, _ = ReadFile("x")`:                         1,
		`package p; import "golang.org/x/sys/unix"; var x, _ = unix.Open("x", 0, 0)`: 1,
		`package p; import "os"; var x = os.Args`:                                    0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := opened(file); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// source is a type-checked package without its tests.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// finding is a finding at a position in a source. The path is relative to the root of the module.
type finding struct {
	file string
	line int
	what string
}

func (s *source) at(n ast.Node, what string) finding {
	pos := s.fset.Position(n.Pos())
	return finding{pos.Filename, pos.Line, what}
}

// checkedFolders are the folders of the packages that actors and machines consist of.
var checkedFolders = []string{"actors", "core", "gateway", "control", "cluster", "node", "simulate"}

// loadSources type-checks the packages below checkedFolders. It reads their imports from the build
// cache, so it takes less than a second.
var loadSources = sync.OnceValues(func() ([]*source, error) {
	packages, err := listExports()
	if err != nil {
		return nil, err
	}
	fset, deps := token.NewFileSet(), importerOf(packages)
	var sources []*source
	var checking sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for path, p := range packages {
		if belowAny(strings.TrimPrefix(path, module+"/"), checkedFolders) == "" {
			continue
		}
		checking.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			s, failed := p.check(fset, deps)
			mu.Lock()
			defer mu.Unlock()
			sources, err = append(sources, s), errors.Join(err, failed)
		})
	}
	checking.Wait()
	return sources, err
})

// checkText type-checks a package that consists of one file.
func checkText(text string) (*source, error) {
	packages, err := listExports()
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return checkFiles("p", fset, []*ast.File{file}, importerOf(packages))
}

// dependencies is an importer that is safe for concurrent use.
type dependencies struct {
	mu   sync.Mutex
	from types.Importer
}

func importerOf(packages map[string]*listed) *dependencies {
	open := func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) }
	return &dependencies{from: importer.ForCompiler(token.NewFileSet(), "gc", open)}
}

func (d *dependencies) Import(path string) (*types.Package, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.from.Import(path)
}

// listed is a package as go list prints it. Export is the file with its export data.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// listExports lists the packages below checkedFolders and all packages that they import.
var listExports = sync.OnceValues(func() (map[string]*listed, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, folder := range checkedFolders {
		args = append(args, "./"+folder+"/...")
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	found := make(map[string]*listed)
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := in.Decode(p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		found[p.ImportPath] = p
	}
})

func (p *listed) check(fset *token.FileSet, deps types.Importer) (*source, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		path, err := filepath.Rel(root, filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return checkFiles(p.ImportPath, fset, files, deps)
}

func checkFiles(path string, fset *token.FileSet, files []*ast.File, deps types.Importer) (*source, error) {
	info := &types.Info{
		Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object),
		Types: make(map[ast.Expr]types.TypeAndValue),
	}
	cfg := types.Config{Importer: deps, Sizes: types.SizesFor("gc", runtime.GOARCH)}
	_, err := cfg.Check(path, fset, files, info)
	return &source{fset, files, info}, err
}

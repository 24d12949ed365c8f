package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"troupe/testkit"
)

const (
	nodePackage = "./cmd/node"
	natsPackage = "github.com/nats-io/nats-server/v2"
)

// binariesEnv names, in the environment of a harness that another one starts, where that one has its binaries.
const binariesEnv = "TROUPE_TEST_BINARIES"

// binaries are the commands built so far, each once in the life of this process.
var binaries struct {
	sync.Mutex
	dir   string
	paths map[string]string // by package
}

// build returns the binary of a command of this module or of one that it depends on.
func build(pkg string) (string, error) {
	b := &binaries
	b.Lock()
	defer b.Unlock()
	if path := b.paths[pkg]; path != "" {
		return path, nil
	}
	path := filepath.Join(os.Getenv(binariesEnv), strings.ReplaceAll(strings.Trim(pkg, "./"), "/", "-"))
	if os.Getenv(binariesEnv) != "" {
		return path, nil
	}
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "troupe-binaries-")
		if err != nil {
			return "", err
		}
		b.dir, b.paths = dir, map[string]string{}
	}
	path = filepath.Join(b.dir, path)
	args := []string{"build", "-o", path}
	if raceEnabled && pkg == nodePackage {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = testkit.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	b.paths[pkg] = path
	return path, nil
}

// Build builds what is started later, so that it takes none of the time that a start may take.
func Build() error {
	for _, pkg := range []string{nodePackage, natsPackage} {
		if _, err := build(pkg); err != nil {
			return err
		}
	}
	return nil
}

// BinariesEnv makes a harness that is started with it use what this one has built.
func BinariesEnv() string { return binariesEnv + "=" + binaries.dir }

// RemoveBinaries removes what was built. What runs, runs on.
func RemoveBinaries() {
	b := &binaries
	b.Lock()
	defer b.Unlock()
	_ = os.RemoveAll(b.dir) // a temporary folder
	b.dir, b.paths = "", nil
}

// helpText are what "troupe up --help" of the built node says that it takes.
var helpText = sync.OnceValues(func() (string, error) {
	bin, err := build(nodePackage)
	if err != nil {
		return "", err
	}
	out, err := exec.Command(bin, "up", "--help").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("troupe up --help: %w\n%s", err, out)
	}
	return string(out), nil
})

// HasFlag reports whether the node takes an option: "--join".
func HasFlag(option string) bool {
	text, err := helpText()
	return err == nil && slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		name, _, _ := strings.Cut(strings.Replace(word, "--[no-]", "--", 1), "=")
		return name == option
	})
}

// recordSources makes the result of a test depend on what its nodes are built from: go test remembers results, and knows which files a test
// has looked at, but not what a compiler that it started has read.
var recordSources = sync.OnceValue(func() error {
	return filepath.WalkDir(testkit.Root(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // somebody tidies up
			return nil
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		_, _ = os.Stat(path) // likewise
		return nil
	})
})

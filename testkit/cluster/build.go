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

	"golang.org/x/sys/unix"

	"troupe/testkit"
)

const (
	nodePackage = "./cmd/node"
	natsPackage = "github.com/nats-io/nats-server/v2"
)

// binariesEnv is the environment variable that tells a harness started by another one where the
// built binaries are.
const binariesEnv = "TROUPE_TEST_BINARIES"

// binaries are the commands that this process has built, each once.
var binaries struct {
	sync.Mutex
	dir   string
	paths map[string]string // by package
}

// build returns the path of a command's binary and builds it on first use. The command belongs to
// this module or to a dependency.
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
	if err := link(pkg, path); err != nil {
		return "", err
	}
	b.paths[pkg] = path
	return path, nil
}

// link puts a command's binary at path. It uses go run, whose binaries are in the build cache, and not
// go build, which would link the node again for each package of tests. Packages that are tested at the
// same time take turns, so that the first one links for all.
func link(pkg, path string) error {
	lock, err := os.Open(testkit.Root()) // go itself locks go.mod
	if err != nil {
		return err
	}
	defer lock.Close() // unlocks
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	args := []string{"run", "-exec", "cp"} // copies the binary instead of running it
	if raceEnabled && pkg == nodePackage {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, pkg, path)...)
	cmd.Dir = testkit.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Build builds all binaries, so that building does not count towards the timeouts of starts.
func Build() error {
	for _, pkg := range []string{nodePackage, natsPackage} {
		if _, err := build(pkg); err != nil {
			return err
		}
	}
	return nil
}

// BinariesEnv returns the environment entry with which another harness uses the binaries of this
// one.
func BinariesEnv() string { return binariesEnv + "=" + binaries.dir }

// RemoveBinaries removes the binaries. Running processes are not affected.
func RemoveBinaries() {
	b := &binaries
	b.Lock()
	defer b.Unlock()
	_ = os.RemoveAll(b.dir) // a temporary folder
	b.dir, b.paths = "", nil
}

// helpText is the output of "troupe up --help" of the built node.
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

// HasFlag reports whether the node has a flag, such as "--join".
func HasFlag(flag string) bool {
	text, err := helpText()
	return err == nil && slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		name, _, _ := strings.Cut(strings.Replace(word, "--[no-]", "--", 1), "=")
		return name == flag
	})
}

// recordSources makes test results depend on the sources of the nodes. go test caches results by
// the files that a test has looked at, and does not see those that a compiler started by the test
// reads.
var recordSources = sync.OnceValue(func() error {
	return filepath.WalkDir(testkit.Root(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return nil
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		_, _ = os.Stat(path) // it may have been removed meanwhile
		return nil
	})
})

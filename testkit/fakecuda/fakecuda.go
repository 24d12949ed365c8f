package fakecuda

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed src blas
var source embed.FS

// The library has no soname, so that opening libcuda.so.1 by name does not return a copy that is
// already loaded.
var flags = []string{"-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fPIC", "-shared"}

// ErrNoCompiler is returned by Build if there is no gcc.
var ErrNoCompiler = errors.New(
	"no gcc to build testkit/fakecuda; install it to run tests that need a fake libcuda.so.1",
)

// Path returns the path of the fake libcuda.so.1 and skips the test if there is no compiler. Its
// folder can be added to LD_LIBRARY_PATH. For the meaning of without, see Build.
func Path(t testing.TB, without ...string) string {
	t.Helper()
	path, err := Build(without...)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build compiles the fake, unless the same source is already built, and returns its path. It can
// leave out parts, like an older driver: "green" leaves out src/green.c.
func Build(without ...string) (string, error) { return build("src", "libcuda.so.1", nil, without) }

// build compiles a folder of the source into a library with the given name.
func build(from, name string, more, without []string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", ErrNoCompiler
	}
	options := slices.Concat(flags, more)
	sum, err := digest(from, options, without)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("troupe-fakecuda-%d-%x", os.Getuid(), sum[:8]))
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := compile(gcc, path, from, options, without); err != nil {
		return "", fmt.Errorf("build testkit/fakecuda: %w", err)
	}
	return path, nil
}

func digest(from string, options, without []string) ([]byte, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, options, without)
	err := fs.WalkDir(source, from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := source.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	return sum.Sum(nil), err
}

// compile builds in a temporary folder and moves the result into place, since other processes may
// build at the same time.
func compile(gcc, path, from string, options, without []string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(folder, "build")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.CopyFS(work, source); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, from, "*.c"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		return slices.Contains(without, strings.TrimSuffix(filepath.Base(file), ".c"))
	})
	built := filepath.Join(work, filepath.Base(path))
	out, err := exec.Command(
		gcc,
		slices.Concat(options, []string{"-o", built}, files, []string{"-ldl", "-lpthread"})...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("gcc: %w: %s", err, out)
	}
	return os.Rename(built, path)
}

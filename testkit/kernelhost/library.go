package kernelhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/testkit"
)

// Build compiles the sources and returns the library's path. It skips the test if there is no g++.
// It reuses a library built from the same sources.
//
// The library has the function
//
//	int troupe_host_launch(const char *entry, const unsigned grid[3], const unsigned block[3],
//	unsigned shared_bytes,
//	                       const void *param, size_t param_bytes)
//
// which returns 0 or an index of Results, and for each entry point a function with its name
//
//	int entry(const void *param, const unsigned geometry[7])
//
// whose geometry has the fields of kernels.Geometry and which returns a CUresult. All may be called
// from any thread.
func Build(t testing.TB) string {
	t.Helper()
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("NOT TESTED: the CUDA sources, since there is no g++ to build them for the CPU; install g++")
	}
	dir := filepath.Join(testkit.Root(), "cuda/kernels/cu")
	flags := []string{"-std=c++17", "-O2", "-march=native", "-Wall", "-Werror", "-fPIC", "-shared"}
	path := filepath.Join(os.TempDir(), "troupe-kernels-"+hash(t, dir, flags)+".so")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	fresh, err := os.MkdirTemp(filepath.Dir(path), "troupe-kernels-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	built := filepath.Join(fresh, "kernels.so")
	build := exec.Command(compiler, append(flags, "-o", built, "-x", "c++", "all.cu", "host/emulate.cc")...)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	if err := os.Rename(built, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func hash(t testing.TB, dir string, flags []string) string {
	t.Helper()
	h := sha256.New()
	fmt.Fprintln(h, flags, runtime.GOARCH)
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", d.Name(), len(content), content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Results are the results of troupe_host_launch, by number.
var Results = [...]string{
	"done", "no such kernel", "the parameter has another size", "the kernel is not for this geometry",
	"the kernel found a bad argument", "threads wait for one another forever",
}

// Library is the loaded library.
type Library struct {
	launch func(entry string, grid, block *[3]uint32, shared uint32, param unsafe.Pointer, bytes uintptr) int32
	entry  func(i int32, name **byte) uintptr
}

// Load builds and loads the library.
func Load(t testing.TB) *Library {
	t.Helper()
	path := Build(t)
	runtime.LockOSThread() // dlopen's error text belongs to a thread
	defer runtime.UnlockOSThread()
	so, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	l := new(Library)
	purego.RegisterLibFunc(&l.launch, so, "troupe_host_launch")
	purego.RegisterLibFunc(&l.entry, so, "troupe_host_entry")
	return l
}

// Entries returns the size of each kernel's parameter by entry point.
func (l *Library) Entries() map[string]int {
	entries := map[string]int{}
	for i := int32(0); ; i++ {
		var name *byte
		bytes := l.entry(i, &name)
		if bytes == 0 {
			return entries
		}
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(name), n)) != 0 {
			n++
		}
		entries[unsafe.String(name, n)] = int(bytes)
	}
}

// Run runs op on memory of this process, with the geometry of kernels.Launch, and waits for it.
func (l *Library) Run(op cuda.Op) error {
	entry, g, ok := kernels.Launch(op)
	if !ok {
		return fmt.Errorf("%w: %s", cuda.ErrUnknownKernel, op.Kernel())
	}
	param := reflect.New(reflect.TypeOf(op))
	param.Elem().Set(reflect.ValueOf(op))
	grid, block := [3]uint32{g.GridX, g.GridY, g.GridZ}, [3]uint32{g.BlockX, g.BlockY, g.BlockZ}
	result := l.launch(entry, &grid, &block, g.SharedBytes, param.UnsafePointer(), param.Elem().Type().Size())
	if result != 0 {
		return &cuda.Fault{Op: op.Kernel(), Reason: Results[result]}
	}
	return nil
}

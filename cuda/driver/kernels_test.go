//go:build linux

package driver_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/kernels"
	"troupe/testkit/fakecuda"
)

// add is a test kernel: Out[i] = Out[i]*Factor + i for each thread i.
type add struct {
	Out    cuda.Ptr
	Factor uint32
	Fail   bool
}

func (add) Kernel() string { return "test_add" }

const (
	addPTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry test_add(\n.param .align 8 .b8 " +
		"test_add_param_0[16]\n)\n{ ret; }\n"
	addC = `#include <stddef.h>
		#include <stdint.h>
		struct add { uint32_t *out; uint32_t factor; uint8_t fail; };
		size_t troupe_host_entry(int i, const char **name) { *name = "test_add"; return i ? 0 : sizeof(struct add); }
		int troupe_host_launch(const char *entry, const unsigned grid[3], const unsigned block[3], 
				unsigned shared, const struct add *op, size_t n) {
			if (op->fail || shared != 65536 || n != sizeof *op) return 4;
			for (unsigned i = 0; i < grid[0] * block[0]; i++) op->out[i] = op->out[i] * op->factor + i;
			return 0;
		}`
)

// testModules provide add, and an entry point that is missing in their code.
type testModules struct{ entry string }

func (testModules) Code(int, int) [][]byte { return [][]byte{[]byte(addPTX)} }

func (m testModules) Launch(op cuda.Op) (string, kernels.Geometry, bool) {
	_, ok := op.(add)
	return m.entry, kernels.Geometry{
		GridX:       2,
		GridY:       1,
		GridZ:       1,
		BlockX:      4,
		BlockY:      1,
		BlockZ:      1,
		SharedBytes: 64 << 10,
	}, ok
}

// compile builds a shared object from C.
func compile(t *testing.T, source string) (path string) {
	t.Helper()
	folder := t.TempDir()
	file, path := filepath.Join(folder, "source.c"), filepath.Join(folder, "object.so")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", path, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// openWithAdd opens a fake device that can run the kernel add.
func openWithAdd(t *testing.T) (*fakecuda.Fake, cuda.Device) {
	t.Helper()
	fake := fakecuda.Open(t)
	fake.Do("kernels " + compile(t, addC))
	d, err := load(t, fake.Path).Open(0, testModules{"test_add"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return fake, d
}

// TestLaunch: each queued launch keeps its arguments and runs after the previous one.
func TestLaunch(t *testing.T) {
	_, d := openWithAdd(t)
	s, at, host := stream(t, d), alloc(t, d, 8*4), hostMemory(t, d, 8*4)
	err := s.CopyIn(at, host)
	var want [8]uint32
	for n := range uint32(500) { // more than fits into a list or its argument memory
		err = errors.Join(err, s.Launch(add{Out: at, Factor: n}))
		for i := range want {
			want[i] = want[i]*n + uint32(i)
		}
	}
	if err := errors.Join(err, s.CopyOut(host, at), s.Sync()); err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if got := binary.LittleEndian.Uint32(host[4*i:]); got != w {
			t.Errorf("element %d is %d, want %d", i, got, w)
		}
	}
}

// TestLaunchInGraph: a graph keeps the arguments of its capture.
func TestLaunchInGraph(t *testing.T) {
	_, d := openWithAdd(t)
	s, at, host := stream(t, d), alloc(t, d, 8*4), hostMemory(t, d, 8*4)
	if err := errors.Join(s.CopyIn(at, host), s.Sync()); err != nil {
		t.Fatal(err)
	}
	g, err := s.(cuda.Capturer).Capture(func() error { return s.Launch(add{Out: at, Factor: 10}) })
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // overwrites the previous argument memory
		err = errors.Join(err, s.Launch(add{Out: at, Factor: 0}))
	}
	if err := errors.Join(err, g.Launch(s), g.Launch(s), s.CopyOut(host, at), s.Sync(), g.Close()); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(host[4*7:]); got != 777 {
		t.Errorf("element 7 is %d, want 777", got)
	}
}

// TestKernelFaults: a failing kernel loses the device, whether it fails by itself or by injection;
// an unknown kernel does not.
func TestKernelFaults(t *testing.T) {
	for _, injected := range []bool{false, true} {
		fake, d := openWithAdd(t)
		s, at, want := stream(t, d), alloc(t, d, 8*4), 719
		if err := s.Launch(kernels.SiluMul{}); !errors.Is(err, cuda.ErrUnknownKernel) {
			t.Errorf("an op missing in the modules: %v", err)
		}
		if injected {
			want = 710
			fake.Fault("exec:test_add@2=710")
		}
		err := errors.Join(s.Launch(add{Out: at}), s.Launch(add{Out: at, Fail: !injected}), s.Sync())
		if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Code != want || !fault.Lost {
			t.Errorf("a kernel that fails: %v", err)
		}
		if _, err := d.Alloc(1); !errors.Is(err, cuda.ErrDeviceLost) {
			t.Errorf("an allocation after that: %v", err)
		}
	}
}

func TestUnknownEntry(t *testing.T) {
	l := load(t, fakecuda.Open(t).Path)
	d, err := l.Open(0, testModules{"no_such_entry"})
	if err != nil {
		t.Fatal(err)
	}
	if err := stream(t, d).Launch(add{}); !errors.Is(err, cuda.ErrUnknownKernel) {
		t.Errorf("%v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

type brokenModules struct{ testModules }

func (brokenModules) Code(int, int) [][]byte { return [][]byte{[]byte("not PTX")} }

// TestBadCode: a device whose kernels do not compile does not open and frees everything.
func TestBadCode(t *testing.T) {
	fake := fakecuda.Open(t)
	before := fake.Live()
	_, err := load(t, fake.Path).Open(0, brokenModules{})
	if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Name != "CUDA_ERROR_INVALID_PTX" {
		t.Errorf("%v", err)
	}
	if fake.Live() != before {
		t.Error("something leaked")
	}
}

var _ driver.Modules = testModules{}

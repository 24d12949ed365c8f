package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"troupe/testkit/fakecuda"
	"troupe/testkit/fakenvml"
)

// fakeGPUs is the script command "gpus [lost|narrow|old]". Later commands find two fake GPUs. The
// second one may be lost or have a narrow link; old is a libcuda.so.1 that lacks functions.
func fakeGPUs(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		m := twoGPUs()
		if len(args) > 0 {
			m.GPUs[1].Lost = args[0] == "lost"
			if args[0] == "narrow" {
				m.GPUs[1].MaxWidth = 16
			}
		}
		ts.Setenv("FAKECUDA_MEM_MB", "32") // shortens the copies
		path := libraries(t, fakenvml.Build(t, m, false))
		if len(args) > 0 && args[0] == "old" {
			ts.Check(ts.Exec("gcc", "-shared", "-fPIC", "-o", ts.MkAbs("libcuda.so.1"), ts.MkAbs("old.c")))
			path = ts.MkAbs(".") + string(os.PathListSeparator) + path
		}
		ts.Setenv("LD_LIBRARY_PATH", path)
	}
}

// twoGPUs returns the GPUs of testkit/fakecuda as NVML reports them.
func twoGPUs() fakenvml.Machine {
	m := fakenvml.Machine{Driver: "580.105.08", CUDA: 13000}
	for i := range 2 {
		m.GPUs = append(m.GPUs, fakenvml.GPU{
			Name: "Fake GPU", UUID: fmt.Sprintf("GPU-66616b65-0000-0000-0000-00000000000%d", i),
			PCI: fmt.Sprintf("0000:0%d:00.0", i+1), MemoryTotal: 256 << 20, Temperature: 41 + i,
			Power: 68000, PowerLimit: 700000, Generation: 1, Width: 1, MaxGeneration: 1, MaxWidth: 1,
		})
	}
	return m
}

// libraries returns the search path of the driver's libraries.
func libraries(t *testing.T, nvml *fakenvml.Library) string {
	return filepath.Dir(fakecuda.Path(t)) + string(os.PathListSeparator) + filepath.Dir(nvml.Path)
}

// TestUpWithGPUs checks that a node uses the GPUs that it finds, prints them, and monitors their
// health.
func TestUpWithGPUs(t *testing.T) {
	self, err := os.Executable() // testscript.Main runs the node under this name
	if err != nil {
		t.Fatal(err)
	}
	m := twoGPUs()
	nvml := fakenvml.Build(t, m, false)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, self, "up", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--nats-listen",
		"127.0.0.1:0")
	node.Args[0] = "troupe"
	node.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries(t, nvml))
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = node.Wait() // it was killed
	}()
	text := readUntil(out, "Try next, in another terminal:")
	for _, want := range []string{"gpu-0 is", "gpu-1 is", "with 256 MiB, simulated; GEMM by own kernels: "} {
		if !strings.Contains(text, want) {
			t.Errorf("output lacks %q:\n%s", want, text)
		}
	}
	gpus := func() string { return ask(t, natsLine.FindString(text), "troupe.v1.gpus.list", "{}") }
	eventually(t, gpus, `"temperature_celsius":42`)
	m.GPUs[1].XIDs = []uint64{79}
	nvml.Set(t, m)
	if got := eventually(t, gpus, "XID 79: GPU has fallen off the bus"); strings.Count(got,
		"GPU_STATE_QUARANTINED") != 1 {
		t.Errorf("%s", got)
	}
}

// eventually repeats a request until the answer contains a text, and returns it.
func eventually(t *testing.T, ask func() string, want string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got := ask()
		if strings.Contains(got, want) {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("no %q in %s", want, got)
		}
	}
}

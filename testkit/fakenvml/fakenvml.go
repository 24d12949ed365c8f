package fakenvml

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed src/nvml.c
var source []byte

// Machine describes what the library reports.
type Machine struct {
	Driver string // "580.105.08"
	CUDA   int    // 13000 is 13.0
	Init   int    // what nvmlInit returns; 0 is success
	GPUs   []GPU
}

// GPU is one device. Units are those of nvml.h: bytes, percent, °C, mW.
type GPU struct {
	Name, UUID, PCI                            string
	MemoryTotal, MemoryUsed                    uint64
	Utilisation, MemoryUtilisation             int
	Temperature, Power, PowerLimit             int
	Corrected, Uncorrectable                   uint64
	RemapPending, RemapFailed                  bool
	Generation, Width, MaxGeneration, MaxWidth int
	// PCI addresses of the far ends; an address that is not a GPU of the machine is a switch
	NVLinks []string
	Levels  map[int]int // index of another GPU -> NVML_TOPOLOGY_*
	// all events so far; a program does not see those from before its subscription
	XIDs []uint64
	Lost bool
}

// Library is a built library in its own folder.
type Library struct{ Path string }

// Build builds a library; if old, without functions that drivers before R450 lack. It skips the
// test if there is no gcc.
func Build(t testing.TB, m Machine, old bool) *Library {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc, to build the fake libnvidia-ml.so.1")
	}
	dir := t.TempDir()
	l := &Library{Path: filepath.Join(dir, "libnvidia-ml.so.1")}
	if err := os.WriteFile(filepath.Join(dir, "nvml.c"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-shared", "-fPIC", "-O1", "-Wall", "-Wno-format-truncation", "-o", l.Path, filepath.Join(dir, "nvml.c"),
		"-ldl", "-lpthread",
	}
	if old {
		args = append(args, "-DOLD")
	}
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	l.Set(t, m)
	return l
}

// Set changes atomically what the library reports.
func (l *Library) Set(t testing.TB, m Machine) {
	t.Helper()
	path := filepath.Join(filepath.Dir(l.Path), "gpus")
	if err := os.WriteFile(path+".new", []byte(m.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (m Machine) text() string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s %v\n", key, value) }
	line("driver", m.Driver)
	line("cuda", m.CUDA)
	line("init", m.Init)
	for _, g := range m.GPUs {
		line("gpu", "")
		for _, f := range []struct {
			key   string
			value any
		}{
			{"name", g.Name}, {"uuid", g.UUID}, {"pci", g.PCI}, {"memory_total", g.MemoryTotal},
			{"memory_used", g.MemoryUsed},
			{"utilisation", g.Utilisation}, {"memory_utilisation", g.MemoryUtilisation}, {"temperature", g.Temperature},
			{"power", g.Power},
			{"power_limit", g.PowerLimit}, {"ecc_corrected", g.Corrected}, {"ecc_uncorrectable", g.Uncorrectable},
			{"remap_pending", bit(g.RemapPending)}, {"remap_failed", bit(g.RemapFailed)}, {"lost", bit(g.Lost)},
			{"pcie_generation", g.Generation}, {"pcie_width", g.Width}, {"pcie_max_generation", g.MaxGeneration},
			{"pcie_max_width", g.MaxWidth},
		} {
			line(f.key, f.value)
		}
		for _, far := range g.NVLinks {
			line("nvlink", far)
		}
		for to, level := range g.Levels {
			line("level", fmt.Sprint(to, " ", level))
		}
		for _, x := range g.XIDs {
			line("xid", x)
		}
	}
	return b.String()
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Alone runs a test in a separate process; see the package comment.
func Alone(t *testing.T, test func(*testing.T)) {
	t.Helper()
	const inside = "FAKENVML_ALONE"
	if os.Getenv(inside) == t.Name() {
		test(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
}

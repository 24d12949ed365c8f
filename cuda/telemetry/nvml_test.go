//go:build cgo

package telemetry_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"troupe/core/health"
	"troupe/cuda/host"
	"troupe/cuda/telemetry"
	"troupe/testkit"
	"troupe/testkit/fakenvml"
)

// machine has two H100 joined by four NVLinks, and a third device that both reach over PCIe.
func machine() fakenvml.Machine {
	h100 := func(uuid, pci string) fakenvml.GPU {
		return fakenvml.GPU{
			Name: "NVIDIA H100 80GB HBM3", UUID: uuid, PCI: pci, MemoryTotal: 80 << 30, MemoryUsed: 3 << 30,
			Utilisation: 97, MemoryUtilisation: 41,
			Temperature: 66, Power: 512340, PowerLimit: 700000, Corrected: 2, Generation: 5, Width: 16,
			MaxGeneration: 5, MaxWidth: 16,
		}
	}
	m := fakenvml.Machine{
		Driver: "580.105.08",
		CUDA:   13000,
		GPUs: []fakenvml.GPU{
			h100("GPU-a", "0000:53:00.0"),
			h100("GPU-b", "0000:64:00.0"),
			h100("GPU-c", "0000:75:00.0"),
		},
	}
	for range 4 {
		m.GPUs[0].NVLinks = append(m.GPUs[0].NVLinks, m.GPUs[1].PCI)
		m.GPUs[1].NVLinks = append(m.GPUs[1].NVLinks, m.GPUs[0].PCI)
	}
	m.GPUs[0].Levels = map[int]int{1: 10, 2: 50}
	return m
}

func open(t *testing.T, l *fakenvml.Library) (*telemetry.Library, []*telemetry.GPU) {
	t.Helper()
	lib, err := telemetry.OpenNVML(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	gpus, err := lib.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	return lib, gpus
}

func TestFacts(t *testing.T) { fakenvml.Alone(t, testFacts) }

func testFacts(t *testing.T) {
	lib, gpus := open(t, fakenvml.Build(t, machine(), false))
	if got := lib.Versions(); got != (telemetry.Versions{Driver: "580.105.08", NVML: "13.580.105.08", CUDA: "13.0"}) {
		t.Errorf("%+v", got)
	}
	want := telemetry.Facts{
		Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-a", PCI: "0000:53:00.0", MemoryBytes: 80 << 30, PowerLimit: 700000,
		PCIe: health.Link{Generation: 5, Width: 16},
		Near: []telemetry.Neighbour{
			{UUID: "GPU-b", NVLinks: 4, Level: telemetry.OneSwitch},
			{UUID: "GPU-c", Level: telemetry.OtherNUMA},
		},
	}
	if diff := cmp.Diff(want, gpus[0].Facts()); diff != "" || len(gpus) != 3 {
		t.Errorf("%d GPUs, %s", len(gpus), diff)
	}
}

// TestHealth follows a device while it heats up, counts errors, has events and is lost.
func TestHealth(t *testing.T) { fakenvml.Alone(t, testHealth) }

func testHealth(t *testing.T) {
	m := machine()
	m.GPUs[0].XIDs = []uint64{31} // before the first observation
	l := fakenvml.Build(t, m, false)
	_, gpus := open(t, l)
	want := health.Observation{
		MemoryUsed: health.Known(3 << 30), Utilisation: health.Known(97), MemoryUtilisation: health.Known(41),
		Temperature: health.Known(66),
		Power:       health.Known(512340), Corrected: health.Known(2), Uncorrectable: health.Known(0),
		PCIe: health.Link{Generation: 5, Width: 16}, NVLinks: 4,
	}
	if diff := cmp.Diff(want, gpus[0].Health()); diff != "" {
		t.Error(diff)
	}
	g := &m.GPUs[0]
	g.Temperature, g.Uncorrectable, g.RemapPending, g.RemapFailed, g.XIDs = 91, 3, true, true, []uint64{31, 48, 63}
	l.Set(t, m)
	want.Temperature, want.Uncorrectable, want.RemapPending, want.RemapFailed, want.XIDs = health.Known(
		91,
	), health.Known(
		3,
	), true, true, []uint64{
		48,
		63,
	}
	if diff := cmp.Diff(want, gpus[0].Health()); diff != "" {
		t.Error(diff)
	}
	if again := gpus[0].Health(); again.XIDs != nil || gpus[1].Health().XIDs != nil {
		t.Errorf("want each event once, for its own device: %v", again.XIDs)
	}
	g.Lost = true
	l.Set(t, m)
	if got := gpus[0].Health(); got.Lost != "GPU is lost" || gpus[1].Health().Lost != "" {
		t.Errorf("%+v", got)
	}
	g.Lost = false
	l.Set(t, m)
	if got := gpus[0].Health(); got.Lost != "" || !got.Temperature.Known {
		t.Errorf("a lost device recovered: %+v", got)
	}
}

// TestOldLibrary: a missing function, which would end the process if called, makes its values
// unknown.
func TestOldLibrary(t *testing.T) { fakenvml.Alone(t, testOldLibrary) }

func testOldLibrary(t *testing.T) {
	m := machine()
	m.GPUs[0].RemapFailed = true
	l := fakenvml.Build(t, m, true)
	_, gpus := open(t, l)
	m.GPUs[0].XIDs = []uint64{79}
	l.Set(t, m)
	got := gpus[0].Health()
	if got.RemapFailed || got.NVLinks != 0 || !slices.Equal(got.XIDs, []uint64{79}) ||
		got.Temperature != health.Known(66) {
		t.Errorf("%+v", got)
	}
	if near := gpus[0].Facts().Near; near[0].NVLinks != 0 || near[0].Level != telemetry.OneSwitch {
		t.Errorf("%+v", near)
	}
}

func TestBySwitch(t *testing.T) { fakenvml.Alone(t, testBySwitch) }

func testBySwitch(t *testing.T) {
	m := machine()
	for i := range m.GPUs {
		m.GPUs[i].NVLinks = []string{"0000:07:00.0", "0000:08:00.0"}
	}
	_, gpus := open(t, fakenvml.Build(t, m, false))
	if near := gpus[0].Facts().Near; near[0].NVLinks != 2 || near[1].NVLinks != 2 {
		t.Errorf("%+v", near)
	}
}

func TestNoDriver(t *testing.T) { fakenvml.Alone(t, testNoDriver) }

func testNoDriver(t *testing.T) {
	_, err := telemetry.OpenNVML(fakenvml.Build(t, fakenvml.Machine{Init: 9}, false).Path)
	if err == nil || errors.Is(err, telemetry.ErrNoLibrary) ||
		err.Error() != "NVML: the driver is not loaded (Driver Not Loaded); load it: modprobe nvidia" {
		t.Error(err)
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := telemetry.OpenNVML("/nowhere/libnvidia-ml.so.1"); !errors.Is(err, telemetry.ErrNoLibrary) {
		t.Error(err)
	}
}

// TestCaptures: recorded output of nvidia-smi on real machines is reproduced.
func TestCaptures(t *testing.T) { fakenvml.Alone(t, testCaptures) }

func testCaptures(t *testing.T) {
	m := fakenvml.Machine{}
	for _, kind := range []string{"h100", "a100", "t4"} {
		one, err := fakenvml.Capture(testkit.Shared(t, "data/hw/nvidia-smi-xml/qx-"+kind+".xml"))
		if err != nil {
			t.Fatal(err)
		}
		m.Driver, m.CUDA = one.Driver, one.CUDA
		m.GPUs = append(m.GPUs, one.GPUs[0])
	}
	_, gpus := open(t, fakenvml.Build(t, m, false))
	for i, want := range []struct {
		name         string
		mib, celsius uint64
		pcie         health.Link
	}{{"NVIDIA H100 80GB HBM3", 81559, 29, health.Link{Generation: 5, Width: 16}}} {
		f, h := gpus[i].Facts(), gpus[i].Health()
		if f.Name != want.name || f.MemoryBytes != int64(want.mib)<<20 || f.PCIe != want.pcie ||
			h.Temperature.Value != want.celsius ||
			h.Power.Value == 0 {
			t.Errorf("%+v, %+v", f, h)
		}
	}
	for _, g := range gpus {
		if f := g.Facts(); f.Name == "" || f.MemoryBytes < 8<<30 || f.PCIe.Width == 0 || f.PowerLimit == 0 {
			t.Errorf("%+v", f)
		}
	}
}

// TestDevice: a device without NVML reports what it can.
func TestDevice(t *testing.T) {
	d, err := host.Open(host.Config{Index: 3, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Alloc(1 << 16); err != nil {
		t.Fatal(err)
	}
	s := telemetry.Device(d)
	if f, h := s.Facts(), s.Health(); f.UUID != "host-3" || f.MemoryBytes != 1<<20 ||
		h.MemoryUsed != health.Known(1<<16) ||
		h.Temperature.Known ||
		h.Lost != "" {
		t.Errorf("%+v, %+v", f, h)
	}
}

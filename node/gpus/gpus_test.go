package gpus_test

import (
	"errors"
	"slices"
	"testing"

	"troupe/core/backend"
	"troupe/core/utilization"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/node/gpus"
)

// closing counts the calls of Close for a device.
type closing struct {
	cuda.Device
	closed *[]string
	name   string
}

func (c closing) Close() error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

// TestGPUs checks the names of devices, and that each is closed once.
func TestGPUs(t *testing.T) {
	var closed []string
	device := func(name string) gpus.GPU {
		d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return gpus.GPU{Device: closing{d, &closed, name}}
	}
	g := gpus.New(func(backend.Kind) engine.Loader { return nil }, device("a"), device("b"))
	if err := g.OpenSoftware([]host.Config{{Index: 2, MemoryBytes: 64 << 20}}); err != nil {
		t.Fatal(err)
	}
	if names := g.Names(); !slices.Equal(names, []string{"gpu-0", "gpu-1", "gpu-2"}) {
		t.Error(names)
	}
	if m, err := g.ModelsOf("gpu-1"); err != nil || m != g.Models()[1] {
		t.Error(err)
	}
	if _, err := g.ModelsOf("gpu-3"); err == nil {
		t.Error("there is no gpu-3")
	}
	g.Close()
	g.Close()
	if !slices.Equal(closed, []string{"b", "a"}) {
		t.Error(closed)
	}
}

// TestPeaksAreMeasuredOnce checks that software devices with as many workers have the same peaks, which are
// not measured on them: they have less memory than that takes, and a fault.
func TestPeaksAreMeasuredOnce(t *testing.T) {
	var all []utilization.Peaks
	for range 2 {
		g := gpus.New(func(backend.Kind) engine.Loader { return nil })
		if err := g.OpenSoftware([]host.Config{{MemoryBytes: 1 << 20, Workers: 2, Inject: func(op string) error {
			if op != "copy in" { // that of the link
				t.Errorf("%s on the device", op)
			}
			return errors.New("the test injects a fault")
		}}}); err != nil {
			t.Fatal(err)
		}
		all = append(all, g.Peaks("gpu-0"))
		g.Close()
	}
	if !all[0].Known() || all[0] != all[1] {
		t.Error(all)
	}
}

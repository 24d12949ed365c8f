package engine_test

import (
	"errors"
	"slices"
	"testing"

	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/testkit/fakecuda"
)

// TestAdapterMemoryResizes checks that pages are added and freed while others keep their content, that only
// pages that were given back are freed, and that no memory is left in the end.
func TestAdapterMemoryResizes(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (cuda.Device, error){
		"host": func(*testing.T) (cuda.Device, error) { return host.Open(host.Config{MemoryBytes: 32 << 20}) },
		"driver": func(t *testing.T) (cuda.Device, error) {
			lib, err := driver.Load(fakecuda.Path(t))
			if err != nil {
				return nil, err
			}
			return lib.Open(0, driver.Embedded{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			testAdapterMemory(t, d)
		})
	}
}

func testAdapterMemory(t *testing.T, d cuda.Device) {
	before, _ := d.Memory()
	m, err := engine.NewAdapterMemory(d, 2, 8)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, allocated int, usable ...uint32) {
		t.Helper()
		free, _ := d.Memory()
		if got := m.PageNumbers(); !slices.Equal(got, usable) || m.Allocated() != allocated ||
			before-free < int64(allocated)*hbm.PageBytes || before-free >= int64(allocated+1)*hbm.PageBytes {
			t.Errorf("%s: pages %v, %d allocated, %d bytes", what, got, m.Allocated(), before-free)
		}
	}
	resize := func(pages int) {
		t.Helper()
		if err := m.Resize(pages); err != nil {
			t.Fatal(err)
		}
	}
	layout := &lora.Layout{}
	layout.Add(lora.Matrix{}, hbm.PageBytes)
	content := make([]byte, hbm.PageBytes)
	content[7] = 7
	file := engine.AdapterFile{Layout: layout, Rank: 1}
	load := func(page uint32) error {
		_, err := m.Load(t.Context(), file, content, nil, []uint32{page})
		return err
	}
	expect("at first", 2, 0, 1)
	resize(4)
	expect("grown", 4, 0, 1, 2, 3)
	if err := errors.Join(load(1), load(3)); err != nil {
		t.Error(err)
	}
	resize(1)
	expect("not given back", 4, 0, 1, 2, 3)
	m.GiveBack([]uint32{0, 2, 9})
	expect("given back", 4, 1, 3)
	if load(0) == nil || load(5) == nil {
		t.Error("loaded into a page that was given back, or has no memory")
	}
	resize(3) // one of them
	expect("shrunk", 3, 1, 3)
	m.TakeBack()
	expect("taken back", 3, 0, 1, 3)
	resize(5)
	expect("grown again", 5, 0, 1, 2, 3, 4)
	if err := errors.Join(load(2), load(4)); err != nil {
		t.Error(err)
	}
	if m.Resize(9) == nil {
		t.Error("more pages than there are addresses")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if free, _ := d.Memory(); free != before {
		t.Errorf("%d bytes are left", before-free)
	}
}

// TestAdapterMemoryRunsOut checks that a growth that fails leaves what was there.
func TestAdapterMemoryRunsOut(t *testing.T) {
	d, err := host.Open(host.Config{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := engine.NewAdapterMemory(d, 2, 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Resize(10); !errors.Is(err, cuda.ErrOutOfMemory) || m.Allocated() != 2 {
		t.Errorf("%v, %d pages", err, m.Allocated())
	}
	if err := errors.Join(m.Resize(3), m.Close()); err != nil {
		t.Error(err)
	}
}

package residency_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/testkit/fakecuda"
)

const blockBytes = 1 << 20

// fakeModel is a model without weights. Its KV blocks of 16 tokens have 1 MiB.
type fakeModel struct{}

func (fakeModel) Inspect(string, cuda.Info) (engine.ModelInfo, error) {
	return engine.ModelInfo{KVTokenBytes: blockBytes / 16}, nil
}

func (f fakeModel) Load(context.Context, cuda.Device, string) (engine.Weights, error) { return f, nil }
func (f fakeModel) Digests() engine.Digests                                           { return engine.Digests{} }

func (f fakeModel) Info() engine.ModelInfo { facts, _ := f.Inspect("", cuda.Info{}); return facts }
func (fakeModel) Free() error              { return nil }
func (fakeModel) Open(engine.Arena, engine.Limits) (engine.Engine, error) {
	return nil, errors.ErrUnsupported
}

// TestResize checks that KV memory grows and shrinks in place. The remaining blocks keep their
// content, and released memory can be allocated again.
func TestResize(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (cuda.Device, error){
		"host": func(*testing.T) (cuda.Device, error) { return host.Open(host.Config{MemoryBytes: 256 << 20}) },
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
			if _, err := cuda.As[cuda.VirtualMemory](d); err != nil {
				t.Skip(err)
			}
			testResize(t, d)
		})
	}
}

func testResize(t *testing.T, d cuda.Device) {
	before, total := d.Memory()
	h := residency.NewStore(d, fakeModel{})
	if _, err := h.Load(t.Context(), engine.LoadSpec{Lease: "m", BlockTokens: 16, KVBlocks: 5}); err != nil {
		t.Fatal(err)
	}
	b, err := h.OpenBlocks("m")
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("kv"), blockBytes/2)
	if err := b.Write(t.Context(), 3, content); err != nil {
		t.Fatal(err)
	}
	taken := func() int64 { free, _ := d.Memory(); return before - free }
	small := taken()
	for _, blocks := range []int{40, 4, 17} {
		l, err := h.Resize("m", blocks)
		if err != nil || l.KVBlocks != blocks || h.Held()[0].KVBlocks != blocks {
			t.Fatalf("%d blocks: %+v, %v", blocks, l, err)
		}
		if grown := taken() - small; grown > int64(blocks-5+2)*blockBytes || grown < int64(blocks-5-2)*blockBytes {
			t.Errorf("%d blocks take %d bytes more than 5", blocks, grown)
		}
		got := make([]byte, blockBytes)
		if err := b.Read(t.Context(), 3, got); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d blocks: block 3 has changed, %v", blocks, err)
		}
		if err := b.Write(t.Context(), int32(blocks-1), content); err != nil {
			t.Errorf("%d blocks: the last one: %v", blocks, err)
		}
		if err := b.Write(t.Context(), int32(blocks), content); err == nil {
			t.Errorf("wrote to block %d of %d", blocks, blocks)
		}
	}
	at := taken()
	other, err := d.Alloc(total - at - 16*blockBytes)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := h.Resize("m", 100); !errors.Is(err, cuda.ErrOutOfMemory) || l.KVBlocks != 17 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := errors.Join(d.Free(other), b.Write(t.Context(), 16, content)); err != nil || taken() != at {
		t.Errorf("%v; %d bytes taken, %d before it failed", err, taken(), at)
	}
	if _, err := h.Resize("m", 1<<20); err == nil {
		t.Error("more blocks than the device could hold")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.Unload("m"); err != nil || taken() != 0 {
		t.Errorf("%v, %d bytes are left behind", err, taken())
	}
}

// fixedDevice is a device without virtual memory.
type fixedDevice struct{ cuda.Device }

func TestResizeUnsupported(t *testing.T) {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	h := residency.NewStore(fixedDevice{d}, fakeModel{})
	if _, err := h.Load(t.Context(), engine.LoadSpec{Lease: "m", BlockTokens: 16, KVBlocks: 5}); err != nil {
		t.Fatal(err)
	}
	if l, err := h.Resize("m", 4); !errors.Is(err, errors.ErrUnsupported) || l.KVBlocks != 5 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := h.Unload("m"); err != nil {
		t.Error(err)
	}
}

package llama_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit/reference"
)

// throughHost hides that a reader copies parts directly.
type throughHost struct{ engine.ImageReader }

// counted counts the parts that were copied directly.
type counted struct {
	engine.WeightsParts
	direct atomic.Int64
}

func (c *counted) CopyPart(ctx context.Context, part int, to cuda.Device, at cuda.Ptr, into []byte) (bool, error) {
	done, err := c.WeightsParts.CopyPart(ctx, part, to, at, into)
	if done {
		c.direct.Add(1)
	}
	return done, err
}

// dirty is a device whose memory has any content before it is written.
type dirty struct{ cuda.Device }

func (d dirty) Alloc(bytes int64) (cuda.Ptr, error) {
	at, err := d.Device.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	s, err := d.NewStream("dirty")
	if err != nil {
		return 0, err
	}
	memory, err := d.AllocHost(bytes)
	if err != nil {
		return 0, err
	}
	for i := range memory.Bytes() {
		memory.Bytes()[i] = 0xff
	}
	return at, errors.Join(s.CopyIn(at, memory.Bytes()), s.Sync(), s.Close(), memory.Free())
}

// TestGapsAreNotRead reads weights from a device whose memory has any content between the tensors.
func TestGapsAreNotRead(t *testing.T) {
	dir := reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 496, Heads: 8, KVHeads: 8, // rows leave gaps
	}, 1)
	clean := newDevice(t)
	w, image, memory := loadWithImage(t, clean, dir)
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	w, err := (llama.Loader{}).Load(t.Context(), dirty{clean}, dir)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := w.(engine.ReadableWeights).OpenParts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(parts.Image().Sums, image.Sums) {
		t.Error("other checksums")
	}
	for i, s := range image.Sums {
		part := make([]byte, s.Bytes)
		if err := parts.ReadPart(t.Context(), i, part); err != nil || !bytes.Equal(part, memory[s.Offset:][:s.Bytes]) {
			t.Errorf("part %d: %v", i, err)
		}
	}
	if err := errors.Join(parts.Close(), w.Free()); err != nil {
		t.Error(err)
	}
}

// TestDeviceHasPartsOfImage loads a model from the memory of another device, directly and through host
// memory, and into host memory too. The checksums of weights that left no image are those of their image.
func TestDeviceHasPartsOfImage(t *testing.T) {
	dir := reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 512, Heads: 8, KVHeads: 8,
	}, 1)
	a, b := newDevice(t), newDevice(t)
	w, image, memory := loadWithImage(t, a, dir)
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	w, err := (llama.Loader{}).Load(t.Context(), a, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := greedy(t, a, w)
	opened, err := w.(engine.ReadableWeights).OpenParts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parts := &counted{WeightsParts: opened}
	if got := parts.Image(); !slices.Equal(got.Sums, image.Sums) || got.Digests != image.Digests ||
		len(got.Sums) < 3 {
		t.Fatalf("%d parts, want %d, or other checksums", len(got.Sums), len(image.Sums))
	}
	into := make([]byte, len(memory))
	for _, keep := range [][]byte{nil, into} {
		for _, from := range []engine.ImageReader{parts, throughHost{parts}} {
			parts.direct.Store(0)
			clear(into)
			peer, err := (llama.Loader{}).LoadImage(t.Context(), b, parts.Image(), keep, from)
			if err != nil {
				t.Fatal(err)
			}
			if got := greedy(t, b, peer); !slices.Equal(got, want) {
				t.Errorf("output %v, want %v", got, want)
			}
			if keep != nil && !bytes.Equal(keep, memory) {
				t.Error("the memory has other bytes than the image")
			}
			direct := int64(len(image.Sums))
			if from != engine.ImageReader(parts) {
				direct = 0
			}
			if parts.direct.Load() != direct {
				t.Errorf("%d parts were copied directly, want %d", parts.direct.Load(), direct)
			}
			if err := peer.Free(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := errors.Join(parts.Close(), w.Free()); err != nil {
		t.Error(err)
	}
	for _, d := range []cuda.Device{a, b} {
		if free, total := d.Memory(); free != total {
			t.Errorf("%d bytes are left on the device", total-free)
		}
	}
}

// TestDamagedDeviceIsRefused changes a byte of weights on a device, whose checksums are known since they
// were loaded from an image.
func TestDamagedDeviceIsRefused(t *testing.T) {
	a, b := newDevice(t), newDevice(t)
	w, image, memory := loadWithImage(t, a, copyModel(t))
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	last := image.Sums[len(image.Sums)-1]
	at, err := a.Alloc(image.Info.WeightBytes) // the weights take the same place again
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Free(at); err != nil {
		t.Fatal(err)
	}
	w, err = (llama.Loader{}).LoadImage(t.Context(), a, image, memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.NewStream("damage")
	if err != nil {
		t.Fatal(err)
	}
	byteOf, err := a.AllocHost(4)
	if err != nil {
		t.Fatal(err)
	}
	copy(byteOf.Bytes(), "bad!")
	if err := errors.Join(s.CopyIn(at.Offset(last.Offset), byteOf.Bytes()), s.Sync(), s.Close()); err != nil {
		t.Fatal(err)
	}
	parts, err := w.(engine.ReadableWeights).OpenParts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []engine.ImageReader{parts, throughHost{parts}} {
		_, err := (llama.Loader{}).LoadImage(t.Context(), b, parts.Image(), nil, from)
		if damaged := (*engine.DamagedImage)(nil); !errors.As(err, &damaged) || damaged.Offset != last.Offset {
			t.Errorf("%v", err)
		}
		if free, total := b.Memory(); free != total {
			t.Errorf("%d bytes are left on the device", total-free)
		}
	}
	if err := parts.Close(); err != nil {
		t.Error(err)
	}
}

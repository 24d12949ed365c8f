package llama_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
	"troupe/testkit/reference"
)

func newDevice(t *testing.T) cuda.Device {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// copyModel copies a model folder of the repository.
func copyModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	return dir
}

// loadWithImage loads a model and fills an image in page-locked memory of the device.
func loadWithImage(t *testing.T, d cuda.Device, dir string) (engine.Weights, *engine.Image, []byte) {
	t.Helper()
	info, err := (llama.Loader{}).Inspect(dir, d.Info())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := d.AllocHost(info.WeightBytes)
	if err != nil {
		t.Fatal(err)
	}
	w, image, err := (llama.Loader{}).LoadWithImage(t.Context(), d, dir, memory.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return w, image, memory.Bytes()
}

// greedy returns the output of a prompt.
func greedy(t *testing.T, d cuda.Device, w engine.Weights) []uint32 {
	t.Helper()
	const blocks = 8
	size := w.Info().KVTokenBytes * blockTokens
	base, err := d.Alloc(size * blocks)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Free(base) }()
	e, err := w.Open(engine.Arena{
		Base: base, Blocks: func() int { return blocks }, BlockTokens: blockTokens, BlockBytes: size,
		MaxBlocks: blocks,
	}, limits)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	g := &generation{prompt: []uint32{1, 5, 9, 40}, want: 40}
	assignBlocks(rand.New(rand.NewPCG(1, 2)), []*generation{g})
	runAlone(t, e, g)
	return g.output
}

// TestImageEqualsFolder checks that a model is loaded from its image without its folder, to the device
// that the image was made on and to another one, with the same bytes, digests and output. It does the
// same with an image that was copied from a device.
func TestImageEqualsFolder(t *testing.T) {
	dir := copyModel(t)
	d, other := newDevice(t), newDevice(t)
	w, image, memory := loadWithImage(t, d, dir)
	want := greedy(t, d, w)
	if len(want) < 8 {
		t.Fatalf("only %d tokens", len(want))
	}
	copied, err := d.AllocHost(int64(len(memory)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := (llama.Loader{}).CopyToImage(t.Context(), w, copied.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied.Bytes(), memory) {
		t.Error("the image copied from the device has other bytes")
	}
	if err := errors.Join(w.Free(), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	for _, from := range []*engine.Image{image, second} {
		for _, on := range []cuda.Device{d, other} { // the other one cannot copy the memory directly
			w, err := (llama.Loader{}).LoadImage(t.Context(), on, from, memory, nil)
			if err != nil {
				t.Fatal(err)
			}
			if w.Digests() != image.Digests || w.Info().WeightBytes != image.Info.WeightBytes {
				t.Errorf("digests %v, want %v", w.Digests(), image.Digests)
			}
			if got := greedy(t, on, w); !slices.Equal(got, want) {
				t.Errorf("output %v, want %v", got, want)
			}
			if err := w.Free(); err != nil {
				t.Error(err)
			}
			if free, total := on.Memory(); free != total {
				t.Errorf("%d bytes are left on the device", total-free)
			}
		}
	}
}

// TestDamagedImageIsRefused flips one bit in each of several places, and checks that each is found and
// that nothing stays on the device.
func TestDamagedImageIsRefused(t *testing.T) {
	d := newDevice(t)
	w, image, memory := loadWithImage(t, d, testkit.Model())
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []engine.ImageSum{image.Sums[0], image.Sums[len(image.Sums)/2], image.Sums[len(image.Sums)-1]} {
		at := s.Offset + s.Bytes - 1
		memory[at] ^= 4
		_, err := (llama.Loader{}).LoadImage(t.Context(), d, image, memory, nil)
		if damaged := (*engine.DamagedImage)(nil); !errors.As(err, &damaged) || damaged.Offset != s.Offset {
			t.Errorf("byte %d: %v", at, err)
		}
		if free, total := d.Memory(); free != total {
			t.Errorf("%d bytes are left on the device", total-free)
		}
		memory[at] ^= 4
	}
	var covered int64
	for _, s := range image.Sums {
		covered += s.Bytes
	}
	if covered < image.Info.WeightBytes*99/100 {
		t.Errorf("%d of %d bytes have a checksum", covered, image.Info.WeightBytes)
	}
}

// TestLoadReadsPastPageCache checks that a file that is not in the page cache is read past it, and that
// one that is there is read from there. Both give the same digest.
func TestLoadReadsPastPageCache(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 512, Heads: 8,
		KVHeads: 8}, 1)
	path := filepath.Join(dir, "model.safetensors")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cached := func() float64 {
		info, err := f.Stat()
		var seen unix.Cachestat_t
		whole := unix.CachestatRange{Len: uint64(info.Size())}
		if err = errors.Join(err, unix.Cachestat(uint(f.Fd()), &whole, &seen, 0)); err != nil {
			t.Skip(err)
		}
		return float64(seen.Cache) * 4096 / float64(info.Size())
	}
	want := loadDigests(t, llama.Loader{}, dir)
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
	if part := cached(); part > 0.1 {
		t.Skipf("%.0f %% of the file stays in the page cache", 100*part)
	}
	if direct, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0); err != nil {
		t.Skipf("the file system has no O_DIRECT: %v", err)
	} else {
		direct.Close()
	}
	if got := loadDigests(t, llama.Loader{}, dir); got != want {
		t.Errorf("past the page cache: %v, want %v", got, want)
	}
	if part := cached(); part > 0.3 {
		t.Errorf("%.0f %% of the file are in the page cache after a load past it", 100*part)
	}
}

// TestFolderHasPartsOfImage loads an image whose parts come from the folder, in any order, and checks that
// other weights of the same shape are refused.
func TestFolderHasPartsOfImage(t *testing.T) {
	shape := reference.Shape{Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 512, Heads: 8, KVHeads: 8}
	dir, other := reference.Random(t, shape, 1), reference.Random(t, shape, 2)
	d := newDevice(t)
	w, image, memory := loadWithImage(t, d, dir)
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	if len(image.Sums) < 3 {
		t.Fatalf("only %d parts", len(image.Sums))
	}
	files, err := llama.Loader{}.OpenParts(dir, image, d.Info())
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	into := make([]byte, len(memory))
	for _, keep := range [][]byte{into, nil} {
		w, err := (llama.Loader{}).LoadImage(t.Context(), d, image, keep, files)
		if err != nil {
			t.Fatal(err)
		}
		back := make([]byte, len(memory))
		again, err := (llama.Loader{}).CopyToImage(t.Context(), w, back)
		if err != nil || !bytes.Equal(back, memory) || !slices.Equal(again.Sums, image.Sums) {
			t.Errorf("the device has other bytes: %v", err)
		}
		if err := w.Free(); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(into, memory) {
		t.Error("the memory has other bytes")
	}
	wrong, err := llama.Loader{}.OpenParts(other, image, d.Info())
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := (llama.Loader{}).LoadImage(t.Context(), d, image, nil, wrong); err == nil {
		t.Error("the parts of other weights were accepted")
	}
	if free, total := d.Memory(); free != total {
		t.Errorf("%d bytes are left on the device", total-free)
	}
}

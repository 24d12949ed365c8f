package models_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
	"troupe/testkit/models"
	"troupe/testkit/reference"
)

// load loads a folder as a replica does, and returns its digests and size.
func load(t *testing.T, dir string) (engine.Digests, engine.ModelInfo) {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	w, err := llama.Loader{}.Load(t.Context(), device, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Free(); err != nil {
			t.Error(err)
		}
	}()
	return w.Digests(), w.Info()
}

func perturb(t *testing.T, base string, seed uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := models.Perturb(base, dir, seed); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPerturbedModelsAreDistinct checks that seeds give models with their own digests and outputs,
// that a seed always gives the same one, and that a copy of a folder is the same model.
func TestPerturbedModelsAreDistinct(t *testing.T) {
	prompt := testkit.JSONLines[testkit.Golden](t, filepath.Join(testkit.Model(), "golden_greedy.jsonl"))[0].PromptIDs
	outputs, digests := [][]uint32{}, []string{}
	for seed := range uint64(7) {
		dir := testkit.Model()
		if seed > 0 {
			dir = perturb(t, testkit.Model(), seed)
		}
		output, margin := reference.Load(t, dir).Greedy(prompt, 16)
		d, _ := load(t, dir)
		if math.IsNaN(margin) || slices.ContainsFunc(outputs, func(other []uint32) bool {
			return slices.Equal(other, output)
		}) {
			t.Errorf("seed %d: output %v, margin %g, after %v", seed, output, margin, outputs)
		}
		if slices.Contains(digests, d.Weights) {
			t.Errorf("seed %d: weights %s, after %v", seed, d.Weights, digests)
		}
		outputs, digests = append(outputs, output), append(digests, d.Weights)
	}
	again := perturb(t, testkit.Model(), 1)
	duplicate := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(duplicate, os.DirFS(again)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{again, duplicate} {
		if d, _ := load(t, dir); d.Weights != digests[1] {
			t.Errorf("%s: weights %s, want %s", dir, d.Weights, digests[1])
		}
	}
}

// TestPerturbEachDType perturbs models of each type of weights, in several files.
func TestPerturbEachDType(t *testing.T) {
	for _, dtype := range []string{"F32", "F16", "BF16"} {
		base := reference.Random(t, reference.Shape{
			Architecture: "LlamaForCausalLM", DType: dtype, Hidden: 32, Heads: 4, KVHeads: 2, Shards: 3}, 1)
		dir := perturb(t, base, 1)
		was, _ := load(t, base)
		is, _ := load(t, dir)
		before := reference.Load(t, base).Logits([]uint32{3, 4, 5})
		after := reference.Load(t, dir).Logits([]uint32{3, 4, 5})
		if is == was || slices.Equal(before, after) || slices.ContainsFunc(after, math.IsNaN) {
			t.Errorf("%s: digests %v and %v, logits %v and %v", dtype, was, is, before[:3], after[:3])
		}
	}
}

// TestRandomHasTheWantedSize checks size, digest and outputs of random models.
func TestRandomHasTheWantedSize(t *testing.T) {
	for _, size := range []int64{models.MinBytes, 30_000_000, 50_000_000, 333_333_333, 1 << 30} {
		for _, dtype := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16} {
			if got := models.SizeOf(size, dtype); got > size || float64(got) < 0.98*float64(size) {
				t.Errorf("%d bytes of %s: got %d", size, dtype, got)
			}
		}
	}
	var digests []string
	for seed, dtype := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16, cuda.BF16} {
		dir := filepath.Join(t.TempDir(), "model")
		if err := models.Random(testkit.Model(), dir, models.MinBytes, dtype, uint64(seed)); err != nil {
			t.Fatal(err)
		}
		file, err := os.Stat(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		d, info := load(t, dir)
		want := file.Size() * 4 / dtype.Bytes() // the software device stores F32
		if off := info.WeightBytes - want; off < -1<<16 || off > 1<<16 {
			t.Errorf("%s: %d bytes on the device, %d in the file", dtype, info.WeightBytes, file.Size())
		}
		if slices.Contains(digests, d.Weights) {
			t.Errorf("%s, seed %d: the digest of another", dtype, seed)
		}
		digests = append(digests, d.Weights)
		logits := reference.Load(t, dir).Logits([]uint32{3, 4, 5})
		if slices.ContainsFunc(logits, func(v float64) bool { return !(math.Abs(v) < 1e4) }) || logits[0] == logits[1] {
			t.Errorf("%s: logits %v", dtype, logits[:4])
		}
	}
}

func TestRandomRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	for _, err := range []error{
		models.Random(testkit.Model(), dir, models.MinBytes-1, cuda.F32, 1),
		models.Random(testkit.Model(), dir, models.MinBytes, cuda.I32, 1),
	} {
		if err == nil {
			t.Error("accepted")
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder was left: %v", err)
	}
	if err := models.Perturb(t.TempDir(), dir, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

// BenchmarkRandom writes a model of 256 MB.
func BenchmarkRandom(b *testing.B) {
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), time.Now().Format(time.RFC3339Nano))
		if err := models.Random(testkit.Model(), dir, 256e6, cuda.BF16, 1); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(256e6)
		_ = os.RemoveAll(dir)
	}
}

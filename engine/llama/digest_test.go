package llama_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/modelfile/digest"
	"troupe/testkit/reference"
)

// bytesRead returns the number of bytes that this process read with system calls.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLoadReadsOnce shows that the digests cost no second read of the weights, in the first load
// and in later ones.
func TestLoadReadsOnce(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 512, Heads: 8,
		KVHeads: 8}, 1)
	info, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < 8<<20 {
		t.Fatalf("%d bytes are too few to see a second read", info.Size())
	}
	settle(t, dir)
	loader := llama.Loader{Digests: &digest.Cache{}}
	var first engine.Digests
	for _, load := range []string{"first", "later"} {
		before := bytesRead(t)
		digests := loadDigests(t, loader, dir)
		if read := bytesRead(t) - before; read > info.Size()+info.Size()/4 {
			t.Errorf("the %s load read %d bytes of a file of %d", load, read, info.Size())
		}
		if first == (engine.Digests{}) {
			first = digests
		}
		known, changed := loader.CachedDigests(dir)
		if digests != first || changed || known != digests || len(digests.Weights) != 64 ||
			len(digests.Revision) != 64 {
			t.Errorf("the %s load: %v, cached %v, changed %v, first %v", load, digests, known, changed, first)
		}
	}
	if other := loadDigests(t, llama.Loader{}, dir); other != first {
		t.Errorf("without a cache: %v, with one %v", other, first)
	}
}

// settle waits until the files of a folder are older than the resolution of their file system's
// clock.
func settle(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Unix(0, digest.StampOf(info).CTime).Add(50 * time.Millisecond)))
	}
}

func loadDigests(t *testing.T, f llama.Loader, dir string) engine.Digests {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, err := f.Load(t.Context(), d, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	return w.Digests()
}

// TestDigestsOfChangedFiles checks that changed weights change both digests, and that changed
// settings change only the revision.
func TestDigestsOfChangedFiles(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 1)
	other := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 2)
	settle(t, dir)
	loader := llama.Loader{Digests: &digest.Cache{}}
	before := loadDigests(t, loader, dir)
	if known, changed := loader.CachedDigests(dir); known != before || changed {
		t.Error("not cached after a load")
	}
	weights := filepath.Join(dir, "model.safetensors")
	if err := os.Rename(filepath.Join(other, "model.safetensors"), weights); err != nil {
		t.Fatal(err)
	}
	if known, changed := loader.CachedDigests(dir); known.Revision != "" || !changed {
		t.Errorf("changed files: %v, changed %v", known, changed)
	}
	changed := loadDigests(t, loader, dir)
	if changed.Weights == before.Weights || changed.Revision == before.Revision {
		t.Errorf("before %v, with other weights %v", before, changed)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"x":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := loadDigests(t, loader, dir); after.Weights != changed.Weights || after.Revision == changed.Revision {
		t.Errorf("before %v, with other settings %v", changed, after)
	}
}

// TestLoadDetectsChangedContent checks that a load detects content that changed although the file's
// size and times did not.
func TestLoadDetectsChangedContent(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 1)
	settle(t, dir)
	path := filepath.Join(dir, "model.safetensors")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	loader := llama.Loader{Digests: &digest.Cache{}}
	before := digest.Content{Check: 1}
	loader.Digests.Put(path, digest.StampOf(info), before, time.Now())
	d, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := loader.Load(t.Context(), d, dir); err == nil ||
		!strings.Contains(err.Error(), "content changed although") {
		t.Error(err)
	}
	if _, err := loader.Load(t.Context(), d, dir); err != nil {
		t.Errorf("hashed again: %v", err)
	}
}

// TestLoadRefusesOtherRevision checks that weights of another revision are refused, and without a
// second read once their digest is known.
func TestLoadRefusesOtherRevision(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 1)
	settle(t, dir)
	d, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	h := residency.NewStore(d, llama.Loader{Digests: &digest.Cache{}})
	spec := engine.LoadSpec{Lease: "m-0", Path: dir, BlockTokens: 16, KVBlocks: 4, Revision: strings.Repeat("ab", 32)}
	for range 2 {
		_, err := h.Load(t.Context(), spec)
		other := (*engine.RevisionMismatch)(nil)
		if !errors.As(err, &other) || other.Found.Revision == "" ||
			!strings.Contains(err.Error(), "revision abababababab is deployed; run models.deploy") {
			t.Errorf("%v", err)
		}
		if len(h.Held()) != 0 {
			t.Error("the lease is held")
		}
	}
	if h.Loads() != 1 {
		t.Errorf("loaded %d times", h.Loads())
	}
	spec.Revision = ""
	if m, err := h.Load(t.Context(), spec); err != nil || m.Digests.Revision == "" {
		t.Error(m.Digests, err)
	}
}

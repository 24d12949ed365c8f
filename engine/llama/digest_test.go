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

// bytesRead is how many bytes this process has read with system calls.
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

// TestLoadReadsOnce: the digests cost no second read of the weights, neither with the first load nor with later ones.
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
	format := llama.Loader{Digests: &digest.Cache{}}
	var first engine.Digests
	for _, load := range []string{"first", "later"} {
		before := bytesRead(t)
		digests := loadDigests(t, format, dir)
		if read := bytesRead(t) - before; read > info.Size()+info.Size()/4 {
			t.Errorf("the %s load read %d bytes, of a file of %d", load, read, info.Size())
		}
		if first == (engine.Digests{}) {
			first = digests
		}
		known, changed := format.CachedDigests(dir)
		if digests != first || changed || known != digests || len(digests.Weights) != 64 ||
			len(digests.Revision) != 64 {
			t.Errorf("the %s load: %v, known as %v, %v, first %v", load, digests, known, changed, first)
		}
	}
	if other := loadDigests(t, llama.Loader{}, dir); other != first {
		t.Errorf("without a cache: %v, with one %v", other, first)
	}
}

// settle waits until the files of a folder are older than the clock of their file system is coarse.
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

// TestDigestsOfChangedFiles: other weights are other weights and another revision; other settings are
// another revision alone.
func TestDigestsOfChangedFiles(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 1)
	other := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 2)
	settle(t, dir)
	format := llama.Loader{Digests: &digest.Cache{}}
	before := loadDigests(t, format, dir)
	if known, changed := format.CachedDigests(dir); known != before || changed {
		t.Error("not known after a load")
	}
	weights := filepath.Join(dir, "model.safetensors")
	if err := os.Rename(filepath.Join(other, "model.safetensors"), weights); err != nil {
		t.Fatal(err)
	}
	if known, changed := format.CachedDigests(dir); known.Revision != "" || !changed {
		t.Errorf("changed files are known as %v, %v", known, changed)
	}
	changed := loadDigests(t, format, dir)
	if changed.Weights == before.Weights || changed.Revision == before.Revision {
		t.Errorf("%v, and with other weights %v", before, changed)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"x":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := loadDigests(t, format, dir); after.Weights != changed.Weights || after.Revision == changed.Revision {
		t.Errorf("%v, and with other settings %v", changed, after)
	}
}

// TestDamageBehindTheStamp: a content that changes while the file looks as before is found when it is loaded again.
func TestDamageBehindTheStamp(t *testing.T) {
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16, Heads: 2,
		KVHeads: 1}, 1)
	settle(t, dir)
	path := filepath.Join(dir, "model.safetensors")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	format := llama.Loader{Digests: &digest.Cache{}}
	format.Digests.Put(path, digest.StampOf(info), digest.Content{Check: 1}, time.Now()) // what it was before
	d, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := format.Load(t.Context(), d, dir); err == nil ||
		!strings.Contains(err.Error(), "its content is not what it was") {
		t.Error(err)
	}
	if _, err := format.Load(t.Context(), d, dir); err != nil {
		t.Errorf("hashed again: %v", err)
	}
}

// TestHolderRefusesOtherWeights: before it reads them, where they are known.
func TestHolderRefusesOtherWeights(t *testing.T) {
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
			t.Error("it is held")
		}
	}
	if h.Loads() != 1 {
		t.Errorf("read %d times", h.Loads())
	}
	spec.Revision = ""
	if m, err := h.Load(t.Context(), spec); err != nil || m.Digests.Revision == "" {
		t.Error(m.Digests, err)
	}
}

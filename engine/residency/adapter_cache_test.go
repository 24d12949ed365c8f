package residency_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit"
)

// newAdapterCache loads the shipped model with pages for adapters.
func newAdapterCache(t *testing.T, pages, rank int) (*residency.Store, *residency.AdapterCache, cuda.Device) {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	store := residency.NewStore(device, llama.Loader{})
	spec := engine.LoadSpec{
		Lease: "x", Path: testkit.Model(), BlockTokens: 16, KVBlocks: 1, AdapterPages: pages,
		Limits: engine.Limits{StepTokens: 8, MaxSequences: 2, MaxAdapters: 2, MaxRank: rank},
	}
	if _, err := store.Load(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	cache, err := store.Adapters("x")
	if err != nil {
		t.Fatal(err)
	}
	return store, cache, device
}

func folder(name string) string { return filepath.Join(testkit.Model(), "adapters", name) }

// TestAdapterCache checks that adapters stay until they are evicted or dropped, and that unloading
// the lease frees all memory.
func TestAdapterCache(t *testing.T) {
	store, cache, device := newAdapterCache(t, 2, 16)
	file, err := cache.Inspect(folder("psalms"))
	if err != nil {
		t.Fatal(err)
	}
	for key, keep := range map[string]bool{"psalms@1": true, "psalms@2": false} {
		page := map[string]uint32{"psalms@1": 0, "psalms@2": 1}[key]
		if err := cache.Load(t.Context(), key, file, []uint32{page}, keep); err != nil {
			t.Fatal(err)
		}
	}
	first, ok := cache.Find("psalms@1")
	if !ok || first.Rank != 8 || len(cache.Held()) != 2 || len(cache.Staged()) != 1 ||
		cache.Staged()[0].Key != "psalms@1" {
		t.Fatalf("%+v: %d on the device, %d in host memory", first, len(cache.Held()), len(cache.Staged()))
	}
	if err := cache.Load(t.Context(), "psalms@1", file, []uint32{0}, true); err != nil {
		t.Fatal(err)
	}
	if again, _ := cache.Find("psalms@1"); again != first {
		t.Error("a resident adapter was loaded again")
	}
	cache.Evict("psalms@1")
	if _, ok := cache.Find("psalms@1"); ok {
		t.Error("an evicted adapter was found")
	}
	if err := errors.Join(cache.Drop("psalms@1"), cache.Drop("psalms@1")); err != nil || len(cache.Staged()) != 0 {
		t.Error(err)
	}
	if _, err := store.Unload("x"); err != nil {
		t.Fatal(err)
	}
	if free, total := device.Memory(); free != total {
		t.Errorf("%d bytes of %d are free", free, total)
	}
	if err := cache.Load(t.Context(), "psalms@3", file, []uint32{0}, true); err == nil ||
		len(cache.Held())+len(cache.Staged()) != 0 {
		t.Errorf("loaded into closed memory: %v", err)
	}
}

// TestAdapterCacheRefuses checks that adapters beyond the engine's limits are refused, and that a
// failed load leaves nothing behind.
func TestAdapterCacheRefuses(t *testing.T) {
	_, cache, _ := newAdapterCache(t, 2, 8)
	if _, err := cache.Inspect(folder("proverbs")); err == nil || !strings.Contains(err.Error(), "rank 16") {
		t.Errorf("rank 16 with at most 8: %v", err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(folder("psalms"))); err != nil {
		t.Fatal(err)
	}
	file, err := cache.Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "adapter_model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := cache.Load(t.Context(), "psalms@1", file, []uint32{0}, true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	whole, err := cache.Inspect(folder("psalms"))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cache.Load(cancelled, "psalms@1", whole, []uint32{0}, true); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := cache.Load(t.Context(), "psalms@1", whole, []uint32{0, 1}, true); err == nil {
		t.Error("two pages for an adapter of one")
	}
	if _, ok := cache.Find("psalms@1"); ok || len(cache.Staged()) != 0 {
		t.Error("a failed load left an adapter behind")
	}
}

package residency_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/core/hbm"
	core "troupe/core/hostcache"
	"troupe/core/lora"
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
	images := residency.NewHostCache(device)
	store.UseImages(images)
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

// issue makes room for an adapter in the host cache of a store, or finds it there, and returns a ticket.
func issue(images *residency.HostCache, name core.Name, bytes int64) string {
	ticket := fmt.Sprintf("t%06d", tickets.Add(1)) // Ended sorts them
	key, fill := core.Key{Digest: ticket, Layout: name.Layout}, true
	for _, h := range images.Held() {
		if slices.Contains(h.Names, name) {
			key, fill = h.Key, false
		}
	}
	if fill {
		images.Reserve(key, bytes)
		images.Attach(key, name)
	}
	images.Issue(ticket, key, fill, time.Now().Add(time.Hour))
	return ticket
}

var tickets atomic.Int64

func folder(name string) string { return filepath.Join(testkit.Model(), "adapters", name) }

// TestAdapterCache checks that adapters stay until they are evicted, and that unloading the lease frees
// all memory.
func TestAdapterCache(t *testing.T) {
	store, cache, device := newAdapterCache(t, 2, 16)
	name := core.Name{Model: "x", Adapter: "psalms@1", Layout: cache.Layout()}
	file, err := cache.Inspect(name, folder("psalms"))
	if err != nil {
		t.Fatal(err)
	}
	for key, page := range map[string]uint32{"psalms@1": 0, "psalms@2": 1} {
		if from, err := cache.Load(t.Context(), key, file, []uint32{page}, ""); err != nil || from != lora.Disk {
			t.Fatal(from, err)
		}
	}
	first, ok := cache.Find("psalms@1")
	if !ok || first.Rank != 8 || len(cache.Held()) != 2 {
		t.Fatalf("%+v: %d on the device", first, len(cache.Held()))
	}
	if from, err := cache.Load(t.Context(), "psalms@1", file, []uint32{0}, ""); err != nil || from != lora.GPU {
		t.Fatal(from, err)
	}
	if again, _ := cache.Find("psalms@1"); again != first {
		t.Error("a resident adapter was loaded again")
	}
	cache.Evict("psalms@1")
	if _, ok := cache.Find("psalms@1"); ok {
		t.Error("an evicted adapter was found")
	}
	if len(store.Images().Held()) > 0 {
		t.Error("a load without a ticket left a copy in host memory")
	}
	if _, err := store.Unload("x"); err != nil {
		t.Fatal(err)
	}
	if free, total := device.Memory(); free != total {
		t.Errorf("%d bytes of %d are free", free, total)
	}
	if _, err := cache.Load(t.Context(), "psalms@3", file, []uint32{0}, ""); err == nil || len(cache.Held()) != 0 {
		t.Errorf("loaded into closed memory: %v", err)
	}
}

// content returns the bytes of an adapter in device memory.
func content(t *testing.T, device cuda.Device, a *engine.Adapter) []byte {
	t.Helper()
	stream, err := device.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	memory, err := device.AllocHost(a.Layout.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Free() }()
	all := memory.Bytes()[:a.Layout.Bytes()]
	for i, page := range slices.Collect(slices.Chunk(all, hbm.PageBytes)) {
		if err := stream.CopyOut(page, a.Pages[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Sync(); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(all)
}

// TestAdapterCopies checks that a load with a ticket leaves a copy in host memory, that later loads need
// no file then, that a damaged copy is not used, and that a load that fails leaves none.
func TestAdapterCopies(t *testing.T) {
	store, cache, device := newAdapterCache(t, 2, 16)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(folder("psalms"))); err != nil {
		t.Fatal(err)
	}
	images, name := store.Images(), core.Name{Model: "x", Adapter: "psalms@1", Layout: cache.Layout()}
	file, err := cache.Inspect(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	load := func(key string, page uint32) (lora.Tier, error) {
		return cache.Load(t.Context(), key, file, []uint32{page}, issue(images, name, file.Layout.Bytes()))
	}
	if from, err := load("psalms@1", 0); from != lora.Disk || err != nil || !cache.InHost(name) {
		t.Fatal(from, err, cache.InHost(name))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if again, err := cache.Inspect(name, dir); err != nil || again.Rank != file.Rank {
		t.Errorf("inspected without files: %v, %v", again.Rank, err)
	}
	if from, err := load("again", 1); from != lora.DRAM || err != nil {
		t.Fatal(from, err)
	}
	first, _ := cache.Find("psalms@1")
	second, _ := cache.Find("again")
	if !slices.Equal(content(t, device, first), content(t, device, second)) {
		t.Error("the adapter loaded from host memory has another content")
	}

	use := images.Claim(issue(images, name, 0))
	bytes, err := use.Memory()
	if err != nil {
		t.Fatal(err)
	}
	bytes[100]++
	news := cache.HostNews()
	if _, err := load("damaged", 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a damaged copy, and no files: %v", err)
	}
	if cache.InHost(name) || cache.HostNews() == news {
		t.Error("a damaged copy is still offered")
	}
	if err := use.Close(); err != nil {
		t.Fatal(err)
	}
	ended := images.Ended()
	if last := ended[len(ended)-1]; last.Damaged == "" {
		t.Errorf("the ticket reports no damage: %+v", ended)
	}
	missing := core.Name{Model: "x", Adapter: "missing@1", Layout: cache.Layout()}
	ticket := issue(images, missing, file.Layout.Bytes())
	if _, err := cache.Load(t.Context(), "missing@1", file, []uint32{1}, ticket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing files: %v", err)
	}
	ended = images.Ended()
	if last := ended[len(ended)-1]; last.ID != ticket || last.Digest != "" || last.Why == "" {
		t.Errorf("a load that failed: %+v", last)
	}
}

// TestAdapterDigest checks that an adapter has another digest if anything that it computes with differs.
func TestAdapterDigest(t *testing.T) {
	layout := func(target lora.Target) *lora.Layout {
		l := &lora.Layout{}
		l.Add(lora.Matrix{Target: target}, 32)
		return l
	}
	bytes := make([]byte, 32)
	same := engine.NewAdapterCopy(engine.AdapterFile{Path: "a", Layout: layout(lora.Q), Rank: 4, Scale: 1}, bytes)
	for name, other := range map[string]*engine.AdapterCopy{
		"rank":   engine.NewAdapterCopy(engine.AdapterFile{Layout: layout(lora.Q), Rank: 2, Scale: 1}, bytes),
		"scale":  engine.NewAdapterCopy(engine.AdapterFile{Layout: layout(lora.Q), Rank: 4, Scale: 2}, bytes),
		"layout": engine.NewAdapterCopy(engine.AdapterFile{Layout: layout(lora.V), Rank: 4, Scale: 1}, bytes),
		"content": engine.NewAdapterCopy(engine.AdapterFile{Layout: layout(lora.Q), Rank: 4, Scale: 1},
			append(bytes[:31:31], 1)),
	} {
		if other.Digest == same.Digest {
			t.Errorf("another %s has the same digest", name)
		}
	}
	again := engine.NewAdapterCopy(engine.AdapterFile{Path: "b", Layout: layout(lora.Q), Rank: 4, Scale: 1}, bytes)
	if again.Digest != same.Digest {
		t.Error("the same adapter in another folder has another digest")
	}
}

// TestAdapterCacheRefuses checks that adapters beyond the engine's limits are refused, and that a
// failed load leaves nothing behind.
func TestAdapterCacheRefuses(t *testing.T) {
	_, cache, _ := newAdapterCache(t, 2, 8)
	var name core.Name
	if _, err := cache.Inspect(name, folder("proverbs")); err == nil || !strings.Contains(err.Error(), "rank 16") {
		t.Errorf("rank 16 with at most 8: %v", err)
	}
	whole, err := cache.Inspect(name, folder("psalms"))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Load(cancelled, "psalms@1", whole, []uint32{0}, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := cache.Load(t.Context(), "psalms@1", whole, []uint32{0, 1}, ""); err == nil {
		t.Error("two pages for an adapter of one")
	}
	if _, ok := cache.Find("psalms@1"); ok {
		t.Error("a failed load left an adapter behind")
	}
}

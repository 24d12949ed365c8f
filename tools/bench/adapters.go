package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"troupe/core/hbm"
	core "troupe/core/hostcache"
	"troupe/core/lora"
	"troupe/core/units"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/adapters"
	"troupe/testkit/models"
)

const (
	adapterRounds   = 21
	adapterModel    = 256 << 20
	adapterRank     = 64
	adapterReplicas = 4
	adapterCount    = 100
)

// adapterLoads measures loads of adapters, and the host memory of their copies.
func adapterLoads() (section, error) {
	s := section{
		title: "Loads of adapters",
		how: "A PEFT folder of rank 64 for all projections of a generated model (F32), onto the software device. " +
			"Paged: a load from host memory into pages of 2 MiB that are not in order, over a bare load of the same " +
			"bytes into contiguous memory. From the host cache: a load from the node's copy, which verifies it, over " +
			"one that reads the folder, from the page cache, and leaves no copy. With a copy: a load that leaves " +
			"one, with its digest. Host memory: that of the host cache after 4 replicas have loaded 100 adapters of " +
			"kjv-2m each, over their bytes. `go run ./tools/bench -only \"loads of adapters\"` measures " +
			"this section.",
	}
	dir, err := os.MkdirTemp("", "adapters")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	l, err := newAdapterLoad(dir)
	if err != nil {
		return s, err
	}
	defer l.device.Close()
	size := units.FormatBytes(l.file.Layout.Bytes())
	for _, m := range []struct {
		what string
		a, b func() error
		most float64
	}{
		{"paged over contiguous load, " + size, l.paged, l.contiguous, 1.05},
		{"from the host cache over its files, " + size, l.fromCopy, l.fromFiles, 1},
		{"from its files with a copy over without, " + size, l.fromFilesKeeping, l.fromFiles, 1.5},
	} {
		a, b, ratio, err := paired(adapterRounds, m.a, m.b)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, row{m.what, fmt.Sprintf("%.2f (%v against %v)", ratio, a.Round(10*time.Microsecond),
			b.Round(10*time.Microsecond)), fmt.Sprintf("%v or less", m.most), yesNo(ratio <= m.most)})
	}
	used, bytes, err := sharedCopies(filepath.Join(dir, "shared"))
	ratio := float64(used) / float64(bytes)
	s.rows = append(s.rows, row{
		fmt.Sprintf("host memory of %d adapters in %d replicas", adapterCount, adapterReplicas),
		fmt.Sprintf("%.2f (%s)", ratio, units.FormatBytes(used)), "1.00", yesNo(ratio == 1),
	})
	return s, err
}

// adapterLoad is a replica with room for one adapter, and a copy of that in the host cache.
type adapterLoad struct {
	device cuda.Device
	cache  *residency.AdapterCache
	images *residency.HostCache
	file   engine.AdapterFile
	name   core.Name
	pages  []uint32
	staged cuda.HostMemory
	memory *engine.AdapterMemory
	tail   cuda.Ptr // contiguous memory for the adapter
	stream cuda.Stream
	n      int
}

func newAdapterLoad(dir string) (l *adapterLoad, err error) {
	base, adapter := filepath.Join(dir, "model"), filepath.Join(dir, "adapter")
	if err := models.Random("models/kjv-2m", base, adapterModel, cuda.F32, 1); err != nil {
		return nil, err
	}
	shape, err := shapeOf(base)
	if err != nil {
		return nil, err
	}
	if err := adapters.Write(adapter, shape, adapterRank, 1); err != nil {
		return nil, err
	}
	l = &adapterLoad{}
	if l.device, err = host.Open(host.Config{MemoryBytes: 3 * adapterModel}); err != nil {
		return nil, err
	}
	l.images = residency.NewHostCache(l.device)
	if l.cache, err = openAdapters(l.device, l.images, base, "a", 64); err != nil {
		return nil, err
	}
	l.name = core.Name{Model: "m", Adapter: "a@1", Layout: l.cache.Layout()}
	if l.file, err = l.cache.Inspect(l.name, adapter); err != nil {
		return nil, err
	}
	for page := range uint32(l.file.Layout.Pages()) {
		l.pages = append(l.pages, page*7%61) // not in order
	}
	if l.memory, err = engine.NewAdapterMemory(l.device, 64, 64); err != nil {
		return nil, err
	}
	if l.staged, err = l.memory.Stage(context.Background(), l.file); err != nil {
		return nil, err
	}
	if l.tail, err = l.device.Alloc(int64(len(l.pages)) * hbm.PageBytes); err != nil {
		return nil, err
	}
	if l.stream, err = l.device.NewStream("contiguous"); err != nil {
		return nil, err
	}
	return l, l.fromFilesKeeping()
}

// openAdapters loads a model, and returns the adapter memory of a lease.
func openAdapters(d cuda.Device, images *residency.HostCache, path, lease string, pages int) (*residency.AdapterCache,
	error) {
	store := residency.NewStore(d, llama.Loader{})
	store.UseImages(images)
	_, err := store.Load(context.Background(), engine.LoadSpec{
		Lease: lease, Path: path, BlockTokens: 16, KVBlocks: 1, AdapterPages: pages,
		Limits: engine.Limits{StepTokens: 8, MaxSequences: 1, MaxAdapters: 1, MaxRank: adapterRank},
	})
	if err != nil {
		return nil, err
	}
	return store.Adapters(lease)
}

func shapeOf(dir string) (s adapters.Shape, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return s, err
	}
	var c struct {
		Hidden       int `json:"hidden_size"`
		Intermediate int `json:"intermediate_size"`
		Layers       int `json:"num_hidden_layers"`
		Heads        int `json:"num_attention_heads"`
		KVHeads      int `json:"num_key_value_heads"`
		HeadDim      int `json:"head_dim"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return s, err
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return adapters.Shape{Layers: c.Layers, Projections: [lora.Targets][2]int{
		lora.Q: {q, c.Hidden}, lora.K: {kv, c.Hidden}, lora.V: {kv, c.Hidden}, lora.O: {c.Hidden, q},
		lora.Gate: {c.Intermediate, c.Hidden}, lora.Up: {c.Intermediate, c.Hidden},
		lora.Down: {c.Hidden, c.Intermediate},
	}}, nil
}

func (l *adapterLoad) paged() error {
	_, err := l.memory.Load(context.Background(), l.file, l.staged.Bytes(), nil, l.pages)
	return err
}

func (l *adapterLoad) contiguous() error {
	return errors.Join(l.stream.CopyIn(l.tail, l.staged.Bytes()[:l.file.Layout.Bytes()]), l.stream.Sync())
}

// issue issues a ticket to read the copy of a name, or to fill it, as the actor of the host cache does.
func issue(images *residency.HostCache, name core.Name, bytes int64, id string) string {
	key, fill := core.Key{Digest: id, Layout: name.Layout}, true
	for _, h := range images.Held() {
		if slices.Contains(h.Names, name) {
			key, fill = h.Key, false
		}
	}
	if fill {
		images.Reserve(key, bytes)
		images.Attach(key, name)
	}
	images.Issue(id, key, fill, time.Now().Add(time.Hour))
	return id
}

func (l *adapterLoad) load(ticket string, want lora.Tier) error {
	l.cache.Evict("a@1")
	from, err := l.cache.Load(context.Background(), "a@1", l.file, l.pages, ticket)
	if err == nil && from != want {
		err = fmt.Errorf("loaded from %s, want %s", from, want)
	}
	return err
}

func (l *adapterLoad) ticket() string {
	l.n++
	return issue(l.images, l.name, l.file.Layout.Bytes(), fmt.Sprint("t", l.n))
}

func (l *adapterLoad) fromFiles() error { return l.load("", lora.Disk) }

func (l *adapterLoad) fromCopy() error { return l.load(l.ticket(), lora.DRAM) }

func (l *adapterLoad) fromFilesKeeping() error {
	for _, h := range l.images.Held() {
		if release := l.images.Free(h.Key); release != nil {
			if err := release(); err != nil {
				return err
			}
		}
	}
	return l.load(l.ticket(), lora.Disk)
}

// sharedCopies lets replicas load adapters, and returns the host memory of their copies, and the bytes of
// the adapters.
func sharedCopies(dir string) (used, bytes int64, err error) {
	d, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		return 0, 0, err
	}
	defer d.Close()
	images, pages := residency.NewHostCache(d), []uint32{0, 1, 2, 3}
	for r := range adapterReplicas {
		cache, err := openAdapters(d, images, "models/kjv-2m", fmt.Sprint("r", r), 4)
		if err != nil {
			return 0, 0, err
		}
		for i := range adapterCount {
			folder := filepath.Join(dir, fmt.Sprint(i))
			if r == 0 {
				if err := adapters.Write(folder, adapters.KJV, adapterRank, uint64(i)); err != nil {
					return 0, 0, err
				}
			}
			name := core.Name{Model: "m", Adapter: fmt.Sprintf("a%d@1", i), Layout: cache.Layout()}
			file, err := cache.Inspect(name, folder)
			if err != nil {
				return 0, 0, err
			}
			ticket := issue(images, name, file.Layout.Bytes(), fmt.Sprintf("%d-%d", r, i))
			cache.Evict(fmt.Sprintf("a%d@1", i-1))
			to := pages[:file.Layout.Pages()]
			if _, err := cache.Load(context.Background(), name.Adapter, file, to, ticket); err != nil {
				return 0, 0, err
			}
			if r == 0 {
				bytes += file.Layout.Bytes()
			}
		}
	}
	for _, h := range images.Held() {
		used += h.Bytes
	}
	return used, bytes, nil
}

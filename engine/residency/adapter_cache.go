package residency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"troupe/core/hostcache"
	"troupe/core/lora"
	"troupe/cuda"
	"troupe/engine"
)

// AdapterCache holds the adapters of one lease in device memory, by key. It survives actor crashes: when
// it is opened again, the same adapters are in the same pages. The caller decides which pages an adapter
// may use. Copies in host memory belong to the host cache of the node. It is safe for concurrent use.
type AdapterCache struct {
	memory *engine.AdapterMemory
	images *HostCache // nil: none
	loader engine.AdapterLoader
	model  string
	layout string
	limits engine.Limits
	info   cuda.Info
	least  int // pages that always stay

	mu       sync.Mutex
	resident map[string]ResidentAdapter
	closed   bool
}

// ResidentAdapter is an adapter in device memory.
type ResidentAdapter struct {
	Key     string
	File    engine.AdapterFile
	Pages   []uint32
	adapter *engine.Adapter
}

// Layout identifies the base model and the kind of device that the content of an adapter is for.
func (s *AdapterCache) Layout() string { return s.layout }

// Inspect checks an adapter against the model and the engine's limits. It reads only headers, and no
// file if there is a copy in host memory.
func (s *AdapterCache) Inspect(name hostcache.Name, path string) (file engine.AdapterFile, err error) {
	if copy := s.images.FindAdapter(name); copy != nil {
		file = copy.File
	} else if file, err = s.loader.OpenAdapter(s.model, path, s.info); err != nil {
		return file, err
	}
	if file.Rank > s.limits.MaxRank {
		err = fmt.Errorf(
			"%s has rank %d, and this replica supports at most %d; raise max_adapter_rank of its model", path,
			file.Rank, s.limits.MaxRank,
		)
	}
	return file, err
}

// InHost reports whether an adapter has a copy in host memory.
func (s *AdapterCache) InHost(name hostcache.Name) bool { return s.images.FindAdapter(name) != nil }

// HostNews returns a number that changes with the answers of InHost.
func (s *AdapterCache) HostNews() uint64 { return s.images.AdapterNews() }

// Load loads an adapter into pages that no step reads, and returns where it was loaded from. The ticket
// is for the copy in the host cache: it is loaded from there, or its files are read and leave a copy. Without a
// ticket, neither happens. It does nothing if the adapter is already in these pages; the tier is GPU
// then. If it fails, it frees what it allocated.
func (s *AdapterCache) Load(
	ctx context.Context, key string, file engine.AdapterFile, pages []uint32, ticket string,
) (from lora.Tier, err error) {
	use := s.images.Claim(ticket)
	defer func() { err = errors.Join(err, use.Close()) }()
	s.mu.Lock()
	held, there := s.resident[key]
	s.mu.Unlock()
	if there && slices.Equal(held.Pages, pages) {
		return lora.GPU, nil
	}
	if copy := use.Adapter(); copy != nil {
		err := s.loadCopy(ctx, key, copy, use, pages)
		damaged := (*engine.DamagedImage)(nil)
		if !errors.As(err, &damaged) {
			return lora.DRAM, err
		}
		use.Damaged(damaged) // its files are read instead
	}
	return lora.Disk, s.loadFiles(ctx, key, file, use, pages)
}

func (s *AdapterCache) loadCopy(
	ctx context.Context, key string, copy *engine.AdapterCopy, use *ImageUse, pages []uint32,
) error {
	content, err := use.Memory()
	if err != nil {
		return err
	}
	return s.load(ctx, key, copy.File, content, copy.Sums, pages)
}

// loadFiles loads an adapter from its files. If use is filling an image, the content stays in the host cache, even
// if the copy to the device fails.
func (s *AdapterCache) loadFiles(
	ctx context.Context, key string, file engine.AdapterFile, use *ImageUse, pages []uint32,
) error {
	if !use.Filling() {
		return s.loadStaged(ctx, key, file, pages)
	}
	content, err := use.Memory()
	if err != nil {
		use.Failed(err)
		return s.loadStaged(ctx, key, file, pages)
	}
	if err := file.Read(ctx, content); err != nil {
		use.Failed(err)
		return err
	}
	err = s.load(ctx, key, file, content, nil, pages)
	use.AdapterFilled(engine.NewAdapterCopy(file, content))
	return err
}

// loadStaged loads an adapter through host memory that it frees.
func (s *AdapterCache) loadStaged(ctx context.Context, key string, file engine.AdapterFile, pages []uint32) error {
	staged, err := s.memory.Stage(ctx, file)
	if err != nil {
		return err
	}
	return errors.Join(s.load(ctx, key, file, staged.Bytes(), nil, pages), staged.Free())
}

func (s *AdapterCache) load(
	ctx context.Context, key string, file engine.AdapterFile, content []byte, sums []uint64, pages []uint32,
) error {
	adapter, err := s.memory.Load(ctx, file, content, sums, pages)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("adapter memory is closed")
	}
	s.resident[key] = ResidentAdapter{key, file, pages, adapter}
	return nil
}

// Find returns an adapter that is in device memory.
func (s *AdapterCache) Find(key string) (*engine.Adapter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.resident[key]
	return held.adapter, ok
}

// Evict removes an adapter from device memory. No step may use its pages afterwards.
func (s *AdapterCache) Evict(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resident, key)
}

// Held returns the adapters in device memory, by key.
func (s *AdapterCache) Held() []ResidentAdapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ResidentAdapter, 0, len(s.resident))
	for _, key := range slices.Sorted(maps.Keys(s.resident)) {
		all = append(all, s.resident[key])
	}
	return all
}

// Pages returns the numbers of all pages, without those that were given back.
func (s *AdapterCache) Pages() []uint32 { return s.memory.PageNumbers() }

// MinPages returns the number of pages that are never asked back.
func (s *AdapterCache) MinPages() int { return s.least }

// GiveBack gives back pages that no adapter is in. The store may free them.
func (s *AdapterCache) GiveBack(pages []uint32) { s.memory.GiveBack(pages) }

// TakeBack takes back the pages that were given back and are not freed.
func (s *AdapterCache) TakeBack() { s.memory.TakeBack() }

// close waits for copies in progress and frees the device memory.
func (s *AdapterCache) close() error {
	err := s.memory.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	clear(s.resident)
	return err
}

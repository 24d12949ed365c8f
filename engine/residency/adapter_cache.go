package residency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"troupe/cuda"
	"troupe/engine"
)

// AdapterCache is the memory for the adapters of one lease, and what is in it, by key. It sits above whatever crashes: who opens it again
// finds the same adapters in the same pages. Who may use which page is the caller's to decide. It is safe for concurrent use.
type AdapterCache struct {
	memory *engine.AdapterMemory
	loader engine.AdapterLoader
	model  string
	limits engine.Limits
	info   cuda.Info

	mu       sync.Mutex
	resident map[string]ResidentAdapter
	staged   map[string]StagedAdapter
	closed   bool
}

// ResidentAdapter is an adapter in device memory.
type ResidentAdapter struct {
	Key     string
	File    engine.AdapterFile
	Pages   []uint32
	adapter *engine.Adapter
}

// StagedAdapter is an adapter in host memory.
type StagedAdapter struct {
	Key    string
	File   engine.AdapterFile
	memory cuda.HostMemory
}

// Inspect reads no more than headers, and checks them against the model and against what an engine takes.
func (s *AdapterCache) Inspect(path string) (engine.AdapterFile, error) {
	file, err := s.loader.OpenAdapter(s.model, path, s.info)
	if err == nil && file.Rank > s.limits.MaxRank {
		err = fmt.Errorf(
			"%s is of rank %d, and this replica takes at most %d; raise max_adapter_rank of its model", path,
			file.Rank, s.limits.MaxRank,
		)
	}
	return file, err
}

// Load brings an adapter into pages that nothing reads, and keeps it in host memory too if told so. What is there already is not read again.
// A load that fails leaves nothing behind.
func (s *AdapterCache) Load(ctx context.Context, key string, file engine.AdapterFile, pages []uint32, keep bool) error {
	s.mu.Lock()
	held, there := s.resident[key]
	staged, kept := s.staged[key]
	s.mu.Unlock()
	if there && slices.Equal(held.Pages, pages) {
		return nil
	}
	if !kept {
		memory, err := s.memory.Stage(ctx, file)
		if err != nil {
			return err
		}
		staged = StagedAdapter{key, file, memory}
	}
	adapter, err := s.memory.Load(ctx, staged.File, staged.memory, pages)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && err == nil {
		err = errors.New("the memory for adapters was given back")
	}
	if err == nil {
		s.resident[key] = ResidentAdapter{key, staged.File, pages, adapter}
	}
	if !kept && keep && err == nil {
		s.staged[key] = staged
	} else if !kept {
		err = errors.Join(err, staged.memory.Free())
	}
	return err
}

// Find returns an adapter that is on the device.
func (s *AdapterCache) Find(key string) (*engine.Adapter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.resident[key]
	return held.adapter, ok
}

// Evict forgets what is in an adapter's pages. Nothing may read them any more.
func (s *AdapterCache) Evict(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resident, key)
}

// Drop frees an adapter's host memory. It must not be loaded from there just now.
func (s *AdapterCache) Drop(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	staged, ok := s.staged[key]
	if !ok {
		return nil
	}
	delete(s.staged, key)
	return staged.memory.Free()
}

// Held returns what is on the device, by key.
func (s *AdapterCache) Held() []ResidentAdapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ResidentAdapter, 0, len(s.resident))
	for _, key := range slices.Sorted(maps.Keys(s.resident)) {
		all = append(all, s.resident[key])
	}
	return all
}

// Staged returns what is in host memory, by key.
func (s *AdapterCache) Staged() []StagedAdapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]StagedAdapter, 0, len(s.staged))
	for _, key := range slices.Sorted(maps.Keys(s.staged)) {
		all = append(all, s.staged[key])
	}
	return all
}

// Pages are the numbers of all pages.
func (s *AdapterCache) Pages() []uint32 { return s.memory.PageNumbers() }

// close waits for copies that are under way, and gives all memory back.
func (s *AdapterCache) close() error {
	err := s.memory.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, staged := range s.staged {
		err = errors.Join(err, staged.memory.Free())
	}
	clear(s.staged)
	clear(s.resident)
	return err
}

// LeaseAdapters puts memory for adapters under a lease that is held, or returns what is there.
func (h *Store) LeaseAdapters(lease string, pages int) (Loaded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.get(lease)
	if err != nil {
		return Loaded{}, err
	}
	if l.adapters == nil {
		err = h.leaseAdapters(l, pages)
	}
	return l.Loaded, err
}

// leaseAdapters allocates; nobody else does so for the lease.
func (h *Store) leaseAdapters(l *model, pages int) error {
	format, ok := h.loader.(engine.AdapterLoader)
	if !ok || l.Limits.MaxAdapters == 0 {
		return fmt.Errorf("the model under lease %s takes no adapters: %w", l.Lease, errors.ErrUnsupported)
	}
	memory, err := engine.NewAdapterMemory(h.device, pages)
	if err != nil {
		return fmt.Errorf("lease %s: %w", l.Lease, err)
	}
	l.adapters = &AdapterCache{
		memory: memory, loader: format, model: l.Path, limits: l.Limits, info: h.device.Info(),
		resident: make(map[string]ResidentAdapter), staged: make(map[string]StagedAdapter),
	}
	l.AdapterPages = pages
	return nil
}

// AdapterMemory returns the memory for adapters under a lease.
func (h *Store) Adapters(lease string) (*AdapterCache, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.get(lease)
	if err != nil {
		return nil, err
	}
	if l.adapters == nil {
		return nil, fmt.Errorf("lease %s has no memory for adapters; lease some first", lease)
	}
	return l.adapters, nil
}

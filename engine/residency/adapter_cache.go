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

// AdapterCache holds the adapters of one lease in device memory and in host memory, by key. It
// survives actor crashes: when it is opened again, the same adapters are in the same pages. The
// caller decides which pages an adapter may use. It is safe for concurrent use.
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

// Inspect reads only an adapter's headers and checks them against the model and the engine's
// limits.
func (s *AdapterCache) Inspect(path string) (engine.AdapterFile, error) {
	file, err := s.loader.OpenAdapter(s.model, path, s.info)
	if err == nil && file.Rank > s.limits.MaxRank {
		err = fmt.Errorf(
			"%s has rank %d, and this replica supports at most %d; raise max_adapter_rank of its model", path,
			file.Rank, s.limits.MaxRank,
		)
	}
	return file, err
}

// Load loads an adapter into pages that no step reads. If keep is set, it also keeps the adapter in
// host memory. It does nothing if the adapter is already in these pages. If it fails, it frees what
// it allocated.
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
		err = errors.New("adapter memory is closed")
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

// Drop frees an adapter's host memory. The adapter must not be loading from there.
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

// Staged returns the adapters in host memory, by key.
func (s *AdapterCache) Staged() []StagedAdapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]StagedAdapter, 0, len(s.staged))
	for _, key := range slices.Sorted(maps.Keys(s.staged)) {
		all = append(all, s.staged[key])
	}
	return all
}

// Pages returns the numbers of all pages.
func (s *AdapterCache) Pages() []uint32 { return s.memory.PageNumbers() }

// close waits for copies in progress and frees all memory.
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

// LeaseAdapters adds memory for adapters to a loaded lease. If the lease has such memory, it
// returns the lease unchanged.
func (s *Store) LeaseAdapters(lease string, pages int) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return Loaded{}, err
	}
	if m.adapters == nil {
		err = s.leaseAdapters(m, pages)
	}
	return m.Loaded, err
}

// leaseAdapters allocates the memory. The caller ensures that no other call does so for this lease.
func (s *Store) leaseAdapters(m *model, pages int) error {
	format, ok := s.loader.(engine.AdapterLoader)
	if !ok || m.Limits.MaxAdapters == 0 {
		return fmt.Errorf("the model of lease %s supports no adapters: %w", m.Lease, errors.ErrUnsupported)
	}
	memory, err := engine.NewAdapterMemory(s.device, pages)
	if err != nil {
		return fmt.Errorf("lease %s: %w", m.Lease, err)
	}
	m.adapters = &AdapterCache{
		memory: memory, loader: format, model: m.Path, limits: m.Limits, info: s.device.Info(),
		resident: make(map[string]ResidentAdapter), staged: make(map[string]StagedAdapter),
	}
	m.AdapterPages = pages
	return nil
}

// Adapters returns the adapter memory of the lease of a handle.
func (s *Store) Adapters(handle string) (*AdapterCache, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.byHandle(handle)
	if err != nil {
		return nil, err
	}
	if m.adapters == nil {
		return nil, fmt.Errorf("lease %s has no adapter memory; lease some first", m.Lease)
	}
	return m.adapters, nil
}

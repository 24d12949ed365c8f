package residency

import (
	"cmp"
	"errors"
	"fmt"

	"troupe/core/hbm"
	"troupe/engine"
)

// LeaseAdapters adds memory for adapters to a loaded lease, of which the given minimum always stays. If
// the lease has such memory, it returns the lease unchanged.
func (s *Store) LeaseAdapters(lease string, pages, least int) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return Loaded{}, err
	}
	if m.adapters == nil {
		err = s.leaseAdapters(m, pages, least)
	}
	return m.Loaded, err
}

// ResizeAdapters changes the number of pages that a lease has for adapters, while adapters are in them.
// It frees only pages that were given back, so there may be more in the end. It returns the new state.
// If the device has no virtual memory, the error is errors.ErrUnsupported.
func (s *Store) ResizeAdapters(lease string, pages int) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return Loaded{}, err
	}
	if m.adapters == nil {
		return m.Loaded, fmt.Errorf("lease %s has no adapter memory; lease some first", lease)
	}
	if err = m.adapters.memory.Resize(pages); err != nil {
		err = fmt.Errorf("lease %s, from %d to %d pages for adapters: %w", lease, m.AdapterPages, pages, err)
	}
	m.AdapterPages = m.adapters.memory.Allocated()
	return m.Loaded, err
}

// leaseAdapters allocates the memory. The caller ensures that no other call does so for this lease.
func (s *Store) leaseAdapters(m *model, pages, least int) error {
	format, ok := s.loader.(engine.AdapterLoader)
	if !ok || m.Limits.MaxAdapters == 0 {
		return fmt.Errorf("the model of lease %s supports no adapters: %w", m.Lease, errors.ErrUnsupported)
	}
	memory, err := engine.NewAdapterMemory(s.device, pages, int(s.device.Info().MemoryBytes/hbm.PageBytes))
	if err != nil {
		return fmt.Errorf("lease %s: %w", m.Lease, err)
	}
	info := s.device.Info()
	m.adapters = &AdapterCache{
		memory: memory, images: s.images, loader: format, model: m.Path, limits: m.Limits, info: info,
		layout: fmt.Sprintf("adapter of %s, %v", cmp.Or(m.Digests.Weights, m.Path), info.Weights),
		least:  least, resident: make(map[string]ResidentAdapter),
	}
	m.AdapterPages, m.AdapterMin = pages, least
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

// OpenAdapter checks an adapter's folder against its base model's folder, for this device. If
// models of this kind support no adapters, the error is errors.ErrUnsupported.
func (s *Store) OpenAdapter(model, adapter string) (engine.AdapterFile, error) {
	format, ok := s.loader.(engine.AdapterLoader)
	if !ok {
		return engine.AdapterFile{}, fmt.Errorf("adapters of %s: %w", model, errors.ErrUnsupported)
	}
	return format.OpenAdapter(model, adapter, s.device.Info())
}

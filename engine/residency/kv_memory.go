package residency

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

// kvMemory is the address range of a lease's KV blocks and the memory mapped to it. If the device
// supports it, the range is large enough for as many blocks as the device can hold, and memory is
// mapped to its start. It then grows and shrinks in place.
type kvMemory struct {
	device cuda.Device
	vm     cuda.VirtualMemory // nil: one allocation of fixed size
	base   cuda.Ptr
	pages  []cuda.Physical // mapped from base on, one granule each
}

// reserveKV returns memory of the given size that can grow to most bytes. If it fails, it frees
// what it allocated.
func reserveKV(d cuda.Device, bytes, most int64) (m *kvMemory, err error) {
	m = &kvMemory{device: d}
	vm, err := cuda.As[cuda.VirtualMemory](d)
	if err == nil {
		m.base, err = vm.Reserve(roundUp(max(bytes, most), vm.Granularity()))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		m.base, err = d.Alloc(bytes)
		return m, err
	}
	if err != nil {
		return nil, err
	}
	m.vm = vm
	if err := m.resize(bytes); err != nil {
		return nil, errors.Join(err, vm.Unreserve(m.base))
	}
	return m, nil
}

// resize maps memory to the first bytes of the range and unmaps the rest, which must be unused. If
// it cannot grow, it restores the previous size.
func (m *kvMemory) resize(bytes int64) error {
	if m.vm == nil {
		return fmt.Errorf("memory has a fixed size: %w", errors.ErrUnsupported)
	}
	page := m.vm.Granularity()
	had, want := len(m.pages), int(roundUp(bytes, page)/page)
	for len(m.pages) < want {
		if err := m.push(page); err != nil {
			return errors.Join(err, m.pop(had))
		}
	}
	return m.pop(want)
}

// push maps one more page.
func (m *kvMemory) push(page int64) error {
	p, err := m.vm.CreatePhysical(page)
	if err != nil {
		return err
	}
	if err := m.vm.Map(m.base.Offset(int64(len(m.pages))*page), p); err != nil {
		return errors.Join(err, p.Release())
	}
	m.pages = append(m.pages, p)
	return nil
}

// pop unmaps pages until the given number is left.
func (m *kvMemory) pop(until int) (err error) {
	for len(m.pages) > until {
		last := len(m.pages) - 1
		p := m.pages[last]
		err = errors.Join(err, m.vm.Unmap(m.base.Offset(int64(last)*p.Bytes()), p.Bytes()), p.Release())
		m.pages = m.pages[:last]
	}
	return err
}

func (m *kvMemory) free() error {
	if m.vm == nil {
		return m.device.Free(m.base)
	}
	return errors.Join(m.pop(0), m.vm.Unreserve(m.base))
}

func roundUp(bytes, page int64) int64 { return (bytes + page - 1) / page * page }

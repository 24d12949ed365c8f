package residency

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

// memory is the addresses of a lease's KV blocks and what is behind them. Where the device can, addresses are reserved for as many
// blocks as it could hold at all, with memory behind the first ones: it grows and shrinks in place.
type kvMemory struct {
	device cuda.Device
	vm     cuda.VirtualMemory // nil: one allocation, whose size is fixed
	base   cuda.Ptr
	pages  []cuda.Physical // behind base, each of the granularity
}

// reserveKV returns memory of so many bytes that may grow to most. Where it fails nothing is left behind.
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

// resize puts memory behind the first so many bytes, and takes away what is behind the rest: nobody may use that. Where it fails, as
// much is there as was before.
func (m *kvMemory) resize(bytes int64) error {
	if m.vm == nil {
		return fmt.Errorf("memory of fixed size: %w", errors.ErrUnsupported)
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

// push puts one more page behind the addresses.
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

// pop takes pages away until there are no more than so many.
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

//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"

	"troupe/cuda"
)

// location is CUmemLocation.
type location struct {
	kind int32 // 1 means a device
	id   int32
}

// allocation is CUmemAllocationProp.
type allocation struct {
	kind  int32 // 1 means page-locked
	_     int32 // types of handles for other processes: none
	where location
	_     [16]byte // fields for other systems and for compression
}

// access is CUmemAccessDesc.
type access struct {
	where location
	flags int32 // 3 means read and write
}

const (
	onDevice  = 1
	pinned    = 1
	readWrite = 3
)

func (d *device) wanted() *allocation {
	a := out[allocation]()
	*a = allocation{kind: pinned, where: location{onDevice, int32(d.info.Index)}}
	return a
}

// Granularity implements cuda.VirtualMemory.
func (d *device) Granularity() int64 {
	bytes, want := out[uint64](), d.wanted()
	err := d.call("query the granularity", d.lib.Granularity, address(bytes), address(want), 0)
	runtime.KeepAlive(want)
	if err != nil {
		return 2 << 20
	}
	return int64(*bytes)
}

// virtual returns the error if the device has no virtual memory management.
func (d *device) virtual() error {
	if err := d.usable(); err != nil {
		return err
	}
	if d.lib.Create.at == 0 {
		return unsupported(d.lib.Create)
	}
	if d.lib.fact(d.handle, virtualMemory) == 0 {
		return fmt.Errorf("cuda: %s has no virtual memory management: %w", d.info.Name, errors.ErrUnsupported)
	}
	return nil
}

// Reserve implements cuda.VirtualMemory.
func (d *device) Reserve(bytes int64) (cuda.Ptr, error) {
	if err := d.virtual(); err != nil {
		return 0, err
	}
	p := out[cuda.Ptr]()
	if err := d.call(
		fmt.Sprintf("reserve %d bytes of addresses", bytes), d.lib.Reserve, address(p), uintptr(bytes), 0, 0, 0,
	); err != nil {
		return 0, err
	}
	at := *p
	d.ranges.add(span{start: at, end: at.Offset(bytes), free: func() error {
		return d.giveBack("release addresses", d.lib.Unreserve, uintptr(at), uintptr(bytes))
	}})
	return at, nil
}

// Unreserve implements cuda.VirtualMemory.
func (d *device) Unreserve(p cuda.Ptr) error {
	s, ok := d.ranges.take(p, allocated)
	if !ok {
		return fmt.Errorf("cuda: %#x is not reserved", uint64(p))
	}
	if err := s.free(); err != nil {
		d.ranges.add(s)
		return err
	}
	return nil
}

// physical is memory without an address.
type physical struct {
	dev    *device
	bytes  int64
	handle uintptr
}

// CreatePhysical implements cuda.VirtualMemory.
func (d *device) CreatePhysical(bytes int64) (cuda.Physical, error) {
	if err := d.virtual(); err != nil {
		return nil, err
	}
	handle, want := out[uintptr](), d.wanted()
	err := d.call(
		fmt.Sprintf("create %d bytes of memory", bytes),
		d.lib.Create,
		address(handle),
		uintptr(bytes),
		address(want),
		0,
	)
	runtime.KeepAlive(want)
	if err != nil {
		return nil, err
	}
	m := &physical{dev: d, bytes: bytes, handle: *handle}
	d.own(m, func() error { return d.giveBack("release memory", d.lib.Release, m.handle) })
	return m, nil
}

func (m *physical) Bytes() int64 { return m.bytes }

func (m *physical) Release() error { return m.dev.disown(m) }

// Map implements cuda.VirtualMemory.
func (d *device) Map(at cuda.Ptr, memory cuda.Physical) error {
	m, ok := memory.(*physical)
	if !ok || m.dev != d {
		return fmt.Errorf("cuda: GPU %d cannot map memory of another device", d.info.Index)
	}
	if !d.owns(m) {
		return errors.New("cuda: released memory cannot be mapped")
	}
	if !d.ranges.covers(at, m.bytes) {
		return fmt.Errorf("cuda: [%#x, +%d) is not reserved", uint64(at), m.bytes)
	}
	if err := d.call("map memory", d.lib.Map, uintptr(at), uintptr(m.bytes), 0, m.handle, 0); err != nil {
		return err
	}
	who := out[access]()
	*who = access{location{onDevice, int32(d.info.Index)}, readWrite}
	unmap := func() error { return d.giveBack("unmap memory", d.lib.Unmap, uintptr(at), uintptr(m.bytes)) }
	err := d.call("set the access to memory", d.lib.SetAccess, uintptr(at), uintptr(m.bytes), address(who), 1)
	runtime.KeepAlive(who)
	if err != nil {
		return errors.Join(err, unmap())
	}
	d.memory.add(span{start: at, end: at.Offset(m.bytes), free: unmap, kind: mapping})
	return nil
}

// Unmap implements cuda.VirtualMemory.
func (d *device) Unmap(at cuda.Ptr, bytes int64) error {
	for end := at.Offset(bytes); at < end; {
		s, ok := d.memory.take(at, mapping)
		if ok && s.end > end {
			d.memory.add(s)
		}
		if !ok || s.end > end {
			return fmt.Errorf("cuda: no mapping starts at %#x and ends by %#x", uint64(at), uint64(end))
		}
		if err := s.free(); err != nil {
			d.memory.add(s)
			return err
		}
		at = s.end
	}
	return nil
}

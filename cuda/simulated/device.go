// Package simulated is a device that is only counted. Its memory is a ledger: it can be allocated, mapped and
// freed as that of a GPU, but holds no bytes, so a machine with little memory can have many of them. It runs no
// kernels and copies nothing. Its Profile has the facts of the device that it stands for, from which
// engine/simulated predicts how long steps and loads take.
package simulated

import (
	"errors"
	"fmt"
	"sync"

	"troupe/core/cost"
	"troupe/cuda"
)

// granule is the page size of memory without an address, as on GPUs.
const granule = 2 << 20

// Config describes a simulated device.
type Config struct {
	Index       int
	Profile     cost.Profile // of the device that it stands for
	Group       int          // it stands for as many devices, which compute each step together; 0: 1
	MemoryBytes int64        // 0: that of all devices of the group
}

// Name returns the name of the devices.
func (c Config) Name() string {
	name := c.Profile.Device.Name + " (simulated)"
	if c.Group > 1 {
		name = fmt.Sprint(c.Group, " x ", name)
	}
	return name
}

// Device is a simulated device. It implements cuda.Device and cuda.VirtualMemory.
type Device struct {
	info    cuda.Info
	profile cost.Profile
	group   int

	mu        sync.Mutex
	next      cuda.Ptr // first address that was never used
	used      int64
	allocated map[cuda.Ptr]int64
	reserved  map[cuda.Ptr]int64
	mapped    map[cuda.Ptr]*physical
}

// Open returns a new device.
func Open(cfg Config) (*Device, error) {
	cfg.Group = max(1, cfg.Group)
	if cfg.MemoryBytes == 0 && cfg.Profile.Device.MemoryBytes != nil {
		cfg.MemoryBytes = int64(cfg.Group) * int64(cfg.Profile.Device.MemoryBytes.Value)
	}
	if cfg.MemoryBytes <= 0 {
		return nil, fmt.Errorf("simulated device %d: the profile %s has no memory_bytes; give a size", cfg.Index,
			cfg.Profile.Name)
	}
	return &Device{
		info: cuda.Info{
			Index: cfg.Index, Name: cfg.Name(), UUID: fmt.Sprint("simulated-", cfg.Index),
			Simulated: true, Ledger: true, MemoryBytes: cfg.MemoryBytes, Weights: cuda.BF16,
		},
		profile: cfg.Profile, group: cfg.Group, next: granule, allocated: make(map[cuda.Ptr]int64),
		reserved: make(map[cuda.Ptr]int64), mapped: make(map[cuda.Ptr]*physical),
	}, nil
}

// Profile returns the profile of the device that this one stands for, and how many of them.
func (d *Device) Profile() (p cost.Profile, group int) { return d.profile, d.group }

// Info implements cuda.Device.
func (d *Device) Info() cuda.Info { return d.info }

// Alloc implements cuda.Device.
func (d *Device) Alloc(bytes int64) (cuda.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.take(bytes); err != nil {
		return 0, err
	}
	p := d.addresses(bytes)
	d.allocated[p] = bytes
	return p, nil
}

// take counts memory. The caller holds the lock.
func (d *Device) take(bytes int64) error {
	switch {
	case bytes <= 0:
		return fmt.Errorf("simulated device: %d bytes of memory; want more than 0", bytes)
	case bytes > d.info.MemoryBytes-d.used:
		return fmt.Errorf("%d bytes on %s, which has %d of %d: %w", bytes, d.info.UUID, d.info.MemoryBytes-d.used,
			d.info.MemoryBytes, cuda.ErrOutOfMemory)
	}
	d.used += bytes
	return nil
}

// addresses returns unused addresses. The caller holds the lock.
func (d *Device) addresses(bytes int64) cuda.Ptr {
	p := d.next
	d.next = d.next.Offset((bytes + granule - 1) / granule * granule)
	return p
}

// Free implements cuda.Device.
func (d *Device) Free(p cuda.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes, ok := d.allocated[p]
	if !ok {
		return fmt.Errorf("simulated device: no memory was allocated at %#x", p)
	}
	delete(d.allocated, p)
	d.used -= bytes
	return nil
}

// Memory implements cuda.Device.
func (d *Device) Memory() (free, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info.MemoryBytes - d.used, d.info.MemoryBytes
}

// hostMemory is plain host memory: the device copies nothing.
type hostMemory []byte

func (m hostMemory) Bytes() []byte { return m }
func (m hostMemory) Free() error   { return nil }

// AllocHost implements cuda.Device.
func (d *Device) AllocHost(bytes int64) (cuda.HostMemory, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("simulated device: %d bytes of host memory; want more than 0", bytes)
	}
	return hostMemory(make([]byte, bytes)), nil
}

// NewStream implements cuda.Device.
func (d *Device) NewStream(string) (cuda.Stream, error) { return stream{}, nil }

// Close implements cuda.Device.
func (d *Device) Close() error { return nil }

// Granularity implements cuda.VirtualMemory.
func (d *Device) Granularity() int64 { return granule }

// Reserve implements cuda.VirtualMemory.
func (d *Device) Reserve(bytes int64) (cuda.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bytes <= 0 || bytes%granule != 0 {
		return 0, fmt.Errorf("simulated device: %d bytes of addresses; want a multiple of %d", bytes, granule)
	}
	p := d.addresses(bytes)
	d.reserved[p] = bytes
	return p, nil
}

// Unreserve implements cuda.VirtualMemory.
func (d *Device) Unreserve(p cuda.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.reserved[p]; !ok {
		return fmt.Errorf("simulated device: no addresses were reserved at %#x", p)
	}
	delete(d.reserved, p)
	return nil
}

// physical is memory without an address.
type physical struct {
	device *Device
	bytes  int64
	maps   int
}

// CreatePhysical implements cuda.VirtualMemory.
func (d *Device) CreatePhysical(bytes int64) (cuda.Physical, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.take(bytes); err != nil {
		return nil, err
	}
	return &physical{device: d, bytes: bytes}, nil
}

func (p *physical) Bytes() int64 { return p.bytes }

func (p *physical) Release() error {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	if p.maps > 0 {
		return errors.New("simulated device: memory is released while it is mapped")
	}
	p.device.used -= p.bytes
	p.bytes = 0
	return nil
}

// Map implements cuda.VirtualMemory.
func (d *Device) Map(at cuda.Ptr, m cuda.Physical) error {
	p, ok := m.(*physical)
	if !ok || p.device != d {
		return errors.New("simulated device: the memory is that of another device")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mapped[at] != nil {
		return fmt.Errorf("simulated device: memory is mapped at %#x already", at)
	}
	d.mapped[at] = p
	p.maps++
	return nil
}

// Unmap implements cuda.VirtualMemory.
func (d *Device) Unmap(at cuda.Ptr, bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for end := at.Offset(bytes); at < end; {
		p := d.mapped[at]
		if p == nil {
			return fmt.Errorf("simulated device: no memory is mapped at %#x", at)
		}
		delete(d.mapped, at)
		p.maps--
		at = at.Offset(p.bytes)
	}
	return nil
}

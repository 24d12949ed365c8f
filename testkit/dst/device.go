package dst

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"troupe/actors/supervise"
	"troupe/core/health"
	"troupe/cuda"
	"troupe/cuda/telemetry"
)

const pageBytes = 64 << 10 // granularity of virtual memory

// Device is a device that does not compute: its memory can be allocated, mapped and copied, and its
// streams run each piece of work immediately.
type Device struct {
	info   cuda.Info
	checks *checks // may be nil

	mu         sync.Mutex
	lost       bool
	losses     int // so far
	full       bool
	errors     uint64 // of memory, which ECC could not correct
	untestable bool   // self-tests fail
	next       cuda.Ptr
	used       int64
	host       int64                      // bytes of host memory
	images     map[*deviceHostMemory]bool // host memory of other sizes than a block, not freed
	allocated  map[cuda.Ptr]*memory
	reserved   map[cuda.Ptr]int64
	mapped     map[cuda.Ptr]*page // by address
}

// NewDevice returns a device with the given memory.
func NewDevice(name string, bytes int64) *Device {
	return &Device{info: cuda.Info{Name: "device (simulated)", UUID: name, Simulated: true, MemoryBytes: bytes},
		next: 1 << 20, allocated: make(map[cuda.Ptr]*memory), reserved: make(map[cuda.Ptr]int64),
		mapped: make(map[cuda.Ptr]*page), images: make(map[*deviceHostMemory]bool)}
}

// name returns "node/device".
func (d *Device) name() string { return strings.Replace(d.info.UUID, "-", "/", 1) }

// setLost makes every call fail with cuda.ErrDeviceLost, or lets calls succeed again. An engine does not
// survive that.
func (d *Device) setLost(lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost = lost; lost {
		d.losses++
	}
}

// lossCount returns how many times the device was lost.
func (d *Device) lossCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.losses
}

// lose loses the device for a while, and returns cuda.ErrDeviceLost.
func (d *Device) lose(rt supervise.Runtime, during time.Duration) error {
	d.setLost(true)
	rt.AfterFunc(during, func() { d.setLost(false) })
	return cuda.ErrDeviceLost
}

// setFull makes every allocation fail, or lets allocations succeed again.
func (d *Device) setFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Health implements gpu.HealthSource.
func (d *Device) Health() (seen health.Observation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.observed()
}

// Facts implements telemetry.Source.
func (d *Device) Facts() telemetry.Facts {
	return telemetry.Facts{Name: d.info.Name, UUID: d.info.UUID}
}

// selfTest fails while the device is lost, or while self-tests fail.
func (d *Device) selfTest() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.untestable {
		return errors.New("the simulation fails the self-test")
	}
	return d.check()
}

// Info implements cuda.Device.
func (d *Device) Info() cuda.Info { return d.info }

func (d *Device) check() error {
	if d.lost {
		return cuda.ErrDeviceLost
	}
	return nil
}

// Alloc implements cuda.Device.
func (d *Device) Alloc(bytes int64) (cuda.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(); err != nil {
		return 0, err
	}
	if d.full || d.used+bytes > d.info.MemoryBytes {
		return 0, fmt.Errorf("%d bytes: %w", bytes, cuda.ErrOutOfMemory)
	}
	p := d.advance(bytes)
	d.used += bytes
	d.allocated[p] = newMemory(bytes)
	return p, nil
}

// advance returns unused addresses.
func (d *Device) advance(bytes int64) cuda.Ptr {
	p := d.next
	d.next += cuda.Ptr((bytes + 2*pageBytes - 1) / pageBytes * pageBytes)
	return p
}

// Free implements cuda.Device.
func (d *Device) Free(p cuda.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.allocated[p]
	if !ok {
		d.violate("memory at %#x is freed, and not allocated", p)
		return fmt.Errorf("free of %#x, which is not allocated", p)
	}
	d.used -= m.size
	delete(d.allocated, p)
	return nil
}

// Memory implements cuda.Device.
func (d *Device) Memory() (free, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info.MemoryBytes - d.used, d.info.MemoryBytes
}

// memory is memory of a device. Its pages are zero, and exist once they are used: most never are.
type memory struct {
	size  int64
	pages [][]byte
}

func newMemory(bytes int64) *memory {
	return &memory{size: bytes, pages: make([][]byte, (bytes+pageBytes-1)/pageBytes)}
}

// from returns the memory from an offset to the end of its page.
func (m *memory) from(offset int64) []byte {
	page := offset / pageBytes
	if m.pages[page] == nil {
		m.pages[page] = make([]byte, min(pageBytes, m.size-page*pageBytes))
	}
	return m.pages[page][offset%pageBytes:]
}

type hostMemory []byte

func (m hostMemory) Bytes() []byte { return m }
func (m hostMemory) Free() error   { return nil }

// deviceHostMemory is host memory that counts as in use until it is freed.
type deviceHostMemory struct {
	hostMemory
	device *Device
	freed  bool
}

// Free implements cuda.HostMemory.
func (m *deviceHostMemory) Free() error {
	m.device.mu.Lock()
	defer m.device.mu.Unlock()
	if m.freed {
		m.device.violate("host memory is freed twice")
		return errors.New("host memory is freed twice")
	}
	m.freed = true
	delete(m.device.images, m)
	m.device.host -= int64(len(m.hostMemory))
	return nil
}

// AllocHost implements cuda.Device.
func (d *Device) AllocHost(bytes int64) (cuda.HostMemory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host += bytes
	m := &deviceHostMemory{hostMemory: make([]byte, bytes), device: d}
	if bytes != blockBytes {
		d.images[m] = true
	}
	return m, nil
}

// hostInUse returns the number of allocated bytes of host memory.
func (d *Device) hostInUse() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.host
}

// Locked implements cuda.HostLocks.
func (d *Device) Locked([]byte) bool { return true }

// Close implements cuda.Device.
func (d *Device) Close() error { return nil }

// Granularity implements cuda.VirtualMemory.
func (d *Device) Granularity() int64 { return pageBytes }

// Reserve implements cuda.VirtualMemory.
func (d *Device) Reserve(bytes int64) (cuda.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.advance(bytes)
	d.reserved[p] = bytes
	return p, d.check()
}

// Unreserve implements cuda.VirtualMemory.
func (d *Device) Unreserve(p cuda.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checkUnreserve(p, d.reserved[p])
	delete(d.reserved, p)
	return nil
}

// physical is physical memory, which has no address until it is mapped.
type physical struct {
	device *Device
	memory *memory // nil: released
	bytes  int64
	mapped int // pages that are mapped
}

// page is a page of physical memory that is mapped.
type page struct {
	of     *physical
	memory *memory
	offset int64
}

// CreatePhysical implements cuda.VirtualMemory.
func (d *Device) CreatePhysical(bytes int64) (cuda.Physical, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(); err != nil {
		return nil, err
	}
	if d.full || d.used+bytes > d.info.MemoryBytes {
		return nil, fmt.Errorf("%d bytes: %w", bytes, cuda.ErrOutOfMemory)
	}
	d.used += bytes
	return &physical{device: d, memory: newMemory(bytes), bytes: bytes}, nil
}

// Bytes implements cuda.Physical.
func (p *physical) Bytes() int64 { return p.bytes }

// Release implements cuda.Physical.
func (p *physical) Release() error {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	p.checkRelease()
	p.device.used -= p.bytes
	p.memory, p.bytes = nil, 0
	return nil
}

// Map implements cuda.VirtualMemory.
func (d *Device) Map(at cuda.Ptr, m cuda.Physical) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := m.(*physical)
	d.checkMap(at, p)
	for offset := int64(0); offset+pageBytes <= p.bytes; offset += pageBytes {
		d.mapped[at.Offset(offset)] = &page{of: p, memory: p.memory, offset: offset}
		p.mapped++
	}
	return d.check()
}

// Unmap implements cuda.VirtualMemory.
func (d *Device) Unmap(at cuda.Ptr, bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range bytes / pageBytes {
		if page := d.mapped[at+cuda.Ptr(i*pageBytes)]; page != nil {
			page.of.mapped--
		}
		delete(d.mapped, at+cuda.Ptr(i*pageBytes))
	}
	return nil
}

// access calls use with the memory at an address, one mapped piece at a time.
func (d *Device) access(p cuda.Ptr, bytes int, use func(offset int, b []byte)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(); err != nil {
		return err
	}
	allocated, base := d.allocation(p, bytes)
	for done := 0; done < bytes; {
		at := p + cuda.Ptr(done)
		var b []byte
		if allocated != nil {
			b = allocated.from(int64(at - base))
		} else if page := d.mapped[at/pageBytes*pageBytes]; page != nil {
			b = page.memory.from(page.offset + int64(at%pageBytes))
		} else {
			d.violate("%d bytes at %#x are used, and not mapped", bytes, p)
			return fmt.Errorf("access of %d bytes at %#x, which are not mapped", bytes, p)
		}
		b = b[:min(len(b), bytes-done)]
		use(done, b)
		done += len(b)
	}
	return nil
}

// allocation returns the allocated memory that has some bytes, and where it begins; nil: none
// has. The caller must hold d.mu.
func (d *Device) allocation(p cuda.Ptr, bytes int) (m *memory, base cuda.Ptr) {
	if d.mapped[p/pageBytes*pageBytes] != nil {
		return nil, 0 // most accesses are to KV memory
	}
	for base, m := range d.allocated {
		if p >= base && p+cuda.Ptr(bytes) <= base+cuda.Ptr(m.size) {
			return m, base
		}
	}
	return nil, 0
}

// inUse returns the number of allocated bytes.
func (d *Device) inUse() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

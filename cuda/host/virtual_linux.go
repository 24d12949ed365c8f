package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"troupe/cuda"
)

// granule is the page size of memory without an address, as on GPUs.
const granule = 2 << 20

// virtual holds a device's reserved addresses and its memory without addresses: pages of an
// anonymous file. Released pages become holes.
type virtual struct {
	mu     sync.Mutex
	ranges map[cuda.Ptr]int64 // start → bytes
	opened bool
	file   int
	pages  int64   // size of the file
	holes  []int64 // free pages of the file
}

// physical is memory, given by its pages in the file.
type physical struct {
	dev   *device
	pages []int64
	maps  int  // number of mappings; guarded by virtual's lock, like freed
	freed bool // freed with its last mapping
}

func (p *physical) Bytes() int64 { return int64(len(p.pages)) * granule }

// Granularity implements cuda.VirtualMemory.
func (d *device) Granularity() int64 { return granule }

// Reserve implements cuda.VirtualMemory.
func (d *device) Reserve(bytes int64) (cuda.Ptr, error) {
	if bytes <= 0 || bytes%granule != 0 {
		return 0, fmt.Errorf("cuda: %d bytes of addresses: want a multiple of %d", bytes, granule)
	}
	p, err := unix.MmapPtr(
		-1,
		0,
		nil,
		uintptr(bytes),
		unix.PROT_NONE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE,
	)
	if err != nil {
		return 0, fmt.Errorf("cuda: reserve %d bytes of addresses: %w", bytes, err)
	}
	d.virtual.mu.Lock()
	defer d.virtual.mu.Unlock()
	d.virtual.ranges[cuda.Ptr(uintptr(p))] = bytes
	return cuda.Ptr(uintptr(p)), nil
}

// Unreserve implements cuda.VirtualMemory.
func (d *device) Unreserve(p cuda.Ptr) error {
	v := &d.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	bytes, ok := v.ranges[p]
	if !ok {
		return fmt.Errorf("cuda: %#x is not reserved", uint64(p))
	}
	for _, a := range d.mem.all() {
		if a.mapped != nil && a.start >= p && a.start < p.Offset(bytes) {
			return fmt.Errorf("cuda: memory is still mapped at %#x", uint64(a.start))
		}
	}
	delete(v.ranges, p)
	return unix.MunmapPtr(at(p), uintptr(bytes))
}

// at converts p to a pointer. Its memory is not Go's.
func at(p cuda.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// CreatePhysical implements cuda.VirtualMemory.
func (d *device) CreatePhysical(bytes int64) (cuda.Physical, error) {
	if bytes <= 0 || bytes%granule != 0 {
		return nil, fmt.Errorf("cuda: %d bytes of memory: want a multiple of %d", bytes, granule)
	}
	if err := d.mem.use(bytes); err != nil {
		return nil, err
	}
	d.virtual.mu.Lock()
	defer d.virtual.mu.Unlock()
	pages, err := d.virtual.take(bytes / granule)
	if err != nil {
		d.mem.unuse(bytes)
		return nil, fmt.Errorf("%w: cannot allocate %d bytes: %w", cuda.ErrOutOfMemory, bytes, err)
	}
	return &physical{dev: d, pages: pages}, nil
}

// take returns free pages and grows the file if there are too few.
func (v *virtual) take(n int64) ([]int64, error) {
	if !v.opened {
		file, err := unix.MemfdCreate("troupe-device", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, err
		}
		v.file, v.opened = file, true
	}
	old := max(0, int64(len(v.holes))-n)
	pages := slices.Clone(v.holes[old:])
	grown := v.pages + n - int64(len(pages))
	if err := unix.Ftruncate(v.file, grown*granule); err != nil {
		return nil, err
	}
	for ; v.pages < grown; v.pages++ {
		pages = append(pages, v.pages)
	}
	v.holes = v.holes[:old]
	return pages, nil
}

// Release implements cuda.Physical.
func (p *physical) Release() error {
	p.dev.virtual.mu.Lock()
	defer p.dev.virtual.mu.Unlock()
	if p.freed {
		return errors.New("cuda: memory is already released")
	}
	p.freed = true
	return p.drop()
}

// drop punches holes for pages that are no longer used. The lock is held.
func (p *physical) drop() error {
	if !p.freed || p.maps > 0 {
		return nil
	}
	v := &p.dev.virtual
	for _, page := range p.pages {
		if err := unix.Fallocate(
			v.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, page*granule, granule,
		); err != nil {
			return fmt.Errorf("cuda: free memory: %w", err)
		}
	}
	v.holes = append(v.holes, p.pages...)
	p.dev.mem.unuse(p.Bytes())
	return nil
}

// Map implements cuda.VirtualMemory.
func (d *device) Map(p cuda.Ptr, memory cuda.Physical) error {
	m, ok := memory.(*physical)
	if !ok || m.dev != d {
		return fmt.Errorf("cuda: device %d cannot map memory of another device", d.Index)
	}
	d.virtual.mu.Lock()
	defer d.virtual.mu.Unlock()
	if m.freed {
		return errors.New("cuda: released memory cannot be mapped")
	}
	if err := d.mappable(p, m.Bytes()); err != nil {
		return err
	}
	for i, page := range m.pages {
		_, err := unix.MmapPtr(d.virtual.file, page*granule, at(p.Offset(int64(i)*granule)), granule,
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
		if err != nil {
			return errors.Join(fmt.Errorf("cuda: map memory at %#x: %w", uint64(p), err), hide(p, m.Bytes()))
		}
	}
	m.maps++
	d.mem.insert(allocation{start: p, bytes: unsafe.Slice((*byte)(at(p)), m.Bytes()), mapped: m})
	return nil
}

// mappable checks that addresses are reserved and unused.
func (d *device) mappable(p cuda.Ptr, bytes int64) error {
	for start, n := range d.virtual.ranges {
		if p < start || p.Offset(bytes) > start.Offset(n) || (p-start)%granule != 0 {
			continue
		}
		for _, a := range d.mem.all() {
			if a.start < p.Offset(bytes) && p < a.end() {
				return fmt.Errorf("cuda: memory is already mapped at %#x", uint64(a.start))
			}
		}
		return nil
	}
	return fmt.Errorf("cuda: [%#x, +%d) is not reserved", uint64(p), bytes)
}

// hide unmaps memory but keeps its addresses reserved.
func hide(p cuda.Ptr, bytes int64) error {
	_, err := unix.MmapPtr(
		-1,
		0,
		at(p),
		uintptr(bytes),
		unix.PROT_NONE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED,
	)
	return err
}

// Unmap implements cuda.VirtualMemory. It waits for running work but not for queued work.
func (d *device) Unmap(p cuda.Ptr, bytes int64) error {
	d.busy.Lock()
	defer d.busy.Unlock()
	d.virtual.mu.Lock()
	defer d.virtual.mu.Unlock()
	for end := p.Offset(bytes); p < end; {
		a, ok := d.mem.remove(p, func(a allocation) bool { return a.mapped != nil && a.end() <= end })
		if !ok {
			return fmt.Errorf("cuda: no mapping starts at %#x and ends by %#x", uint64(p), uint64(end))
		}
		a.mapped.maps--
		if err := errors.Join(hide(p, int64(len(a.bytes))), a.mapped.drop()); err != nil {
			return err
		}
		p = a.end()
	}
	return nil
}

// close frees everything.
func (v *virtual) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for p, bytes := range v.ranges {
		errs = append(errs, unix.MunmapPtr(at(p), uintptr(bytes)))
	}
	if v.opened {
		errs = append(errs, unix.Close(v.file))
	}
	v.ranges, v.opened = nil, false
	return errors.Join(errs...)
}

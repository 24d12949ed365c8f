package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"troupe/cuda"
)

const align = 256

// memory tracks a device's allocations. Lookups take no lock.
type memory struct {
	capacity int64
	mu       sync.Mutex                   // held to change ranges
	used     int64                        // bytes, rounded up to align
	ranges   atomic.Pointer[[]allocation] // sorted by address; copied on write
}

type allocation struct {
	start  cuda.Ptr
	bytes  []byte    // as requested; its capacity is the mapped size
	mapped *physical // of memory from Map, where adjacent mappings are merged; nil if from Alloc
	shared bool      // another device owns the memory
}

func (a allocation) end() cuda.Ptr { return a.start.Offset(int64(len(a.bytes))) }

func (m *memory) all() []allocation {
	if r := m.ranges.Load(); r != nil {
		return *r
	}
	return nil
}

func (m *memory) alloc(bytes int64) (cuda.Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("cuda: allocation of %d bytes", bytes)
	}
	if err := m.use(bytes); err != nil {
		return 0, err
	}
	b, err := mmap(bytes)
	if err != nil {
		m.unuse(bytes)
		return 0, fmt.Errorf("%w: cannot map %d bytes: %w", cuda.ErrOutOfMemory, bytes, err)
	}
	a := allocation{start: address(b), bytes: b[:bytes]}
	m.insert(a)
	return a.start, nil
}

// use reserves bytes if they are available.
func (m *memory) use(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := m.capacity - m.used; bytes > free || round(bytes) > free {
		return fmt.Errorf("%w: %d bytes asked for, %d of %d free", cuda.ErrOutOfMemory, bytes, free, m.capacity)
	}
	m.used += round(bytes)
	return nil
}

func (m *memory) unuse(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= round(bytes)
}

func (m *memory) insert(a allocation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, _ := slices.BinarySearchFunc(m.all(), a.start, compare)
	ranges := slices.Insert(slices.Clone(m.all()), at, a)
	m.ranges.Store(&ranges)
}

// remove removes the allocation at p if meant returns true for it.
func (m *memory) remove(p cuda.Ptr, meant func(allocation) bool) (a allocation, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := slices.BinarySearchFunc(m.all(), p, compare)
	if !ok || !meant(m.all()[at]) {
		return allocation{}, false
	}
	a = m.all()[at]
	ranges := slices.Delete(slices.Clone(m.all()), at, at+1)
	m.ranges.Store(&ranges)
	return a, true
}

func (m *memory) release(p cuda.Ptr) error {
	a, ok := m.remove(p, func(a allocation) bool { return a.mapped == nil && !a.shared })
	if !ok {
		return fmt.Errorf("cuda: %#x was not allocated or was already freed", uint64(p))
	}
	m.unuse(int64(len(a.bytes)))
	return munmap(a.bytes)
}

// releaseAll frees everything that it owns. Mapped memory is freed with its addresses.
func (m *memory) releaseAll() error {
	var errs []error
	for _, a := range m.all() {
		if a.mapped == nil && !a.shared {
			errs = append(errs, munmap(a.bytes))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ranges.Store(nil)
	m.used = 0
	return errors.Join(errs...)
}

func (m *memory) free() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.capacity - m.used
}

// Bytes implements kernels.Memory.
func (m *memory) Bytes(p cuda.Ptr, n int64) []byte {
	b, ok := m.find(p, n)
	if !ok {
		panic(fmt.Sprintf("illegal address: [%#x, +%d) is not in one allocation", uint64(p), n))
	}
	return b
}

// Prefix implements kernels.Memory.
func (m *memory) Prefix(p cuda.Ptr, n int64) []byte {
	ranges := m.all()
	at, ok := slices.BinarySearchFunc(ranges, p, compare)
	if !ok {
		at-- // the allocation that starts before p
	}
	if at < 0 || n <= 0 || p >= ranges[at].end() {
		return nil
	}
	first, end := &ranges[at].bytes[p-ranges[at].start], ranges[at].end()
	for at++; at < len(ranges) && end < p.Offset(n); at++ {
		if ranges[at].start != end || ranges[at].mapped == nil || ranges[at-1].mapped == nil {
			break
		}
		end = ranges[at].end()
	}
	return unsafe.Slice(first, min(n, int64(end-p)))
}

// locked returns b if it is in m, which is the host memory of a device.
func (m *memory) locked(b []byte) []byte {
	found, ok := m.find(address(b), int64(len(b)))
	if !ok {
		panic(fmt.Sprintf("host memory of %d bytes is not page-locked: use AllocHost", len(b)))
	}
	return found
}

func (m *memory) find(p cuda.Ptr, n int64) (b []byte, ok bool) {
	if n == 0 {
		return nil, true
	}
	ranges := m.all()
	at, ok := slices.BinarySearchFunc(ranges, p, compare)
	if !ok {
		at-- // the allocation that starts before p
	}
	if at < 0 || n < 0 || p >= ranges[at].end() || p.Offset(n) < p {
		return nil, false
	}
	first := &ranges[at].bytes[p-ranges[at].start]
	for ; p.Offset(n) > ranges[at].end(); at++ {
		if at+1 == len(ranges) || ranges[at].mapped == nil || ranges[at+1].mapped == nil ||
			ranges[at].end() != ranges[at+1].start {
			return nil, false
		}
	}
	return unsafe.Slice(first, n), true
}

func address(b []byte) cuda.Ptr { return cuda.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func compare(a allocation, p cuda.Ptr) int {
	switch {
	case a.start < p:
		return -1
	case a.start > p:
		return 1
	}
	return 0
}

func round(bytes int64) int64 { return (bytes + align - 1) / align * align }

func mmap(bytes int64) ([]byte, error) {
	return syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func munmap(b []byte) error { return syscall.Munmap(b[:cap(b)]) }

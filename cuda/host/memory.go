package host

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"troupe/cuda"
)

const align = 256

// memory is what a device has allocated. Looking an address up takes no lock.
type memory struct {
	capacity int64
	mu       sync.Mutex                   // held to change ranges
	used     int64                        // bytes, rounded up to align
	ranges   atomic.Pointer[[]allocation] // sorted by address; replaced as a whole
}

type allocation struct {
	start cuda.Ptr
	bytes []byte // as asked for; its capacity is what was mapped
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := m.capacity - m.used; bytes > free || round(bytes) > free {
		return 0, fmt.Errorf("%w: %d bytes asked for, %d of %d free", cuda.ErrOutOfMemory, bytes, m.capacity-m.used, m.capacity)
	}
	b, err := mmap(bytes)
	if err != nil {
		return 0, fmt.Errorf("%w: the system has no %d bytes: %w", cuda.ErrOutOfMemory, bytes, err)
	}
	a := allocation{address(b), b[:bytes]}
	ranges := slices.Clone(m.all())
	at, _ := slices.BinarySearchFunc(ranges, a.start, compare)
	ranges = slices.Insert(ranges, at, a)
	m.ranges.Store(&ranges)
	m.used += round(bytes)
	return a.start, nil
}

func (m *memory) release(p cuda.Ptr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ranges := slices.Clone(m.all())
	at, ok := slices.BinarySearchFunc(ranges, p, compare)
	if !ok {
		return fmt.Errorf("cuda: %#x was not allocated, or was freed before", uint64(p))
	}
	a := ranges[at]
	ranges = slices.Delete(ranges, at, at+1)
	m.ranges.Store(&ranges)
	m.used -= round(int64(len(a.bytes)))
	return munmap(a.bytes)
}

func (m *memory) releaseAll() error {
	for _, a := range m.all() {
		if err := m.release(a.start); err != nil {
			return err
		}
	}
	return nil
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
	if at < 0 || n < 0 || p >= ranges[at].end() || p.Offset(n) > ranges[at].end() {
		return nil, false
	}
	from := int64(p - ranges[at].start)
	return ranges[at].bytes[from : from+n : from+n], true
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

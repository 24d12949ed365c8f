//go:build linux

package driver

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"troupe/cuda"
)

// hostMemory is process memory that the driver has page-locked. The driver does not own it, so it
// survives the reopening of a lost device while it may be in use.
type hostMemory struct {
	dev   *device
	bytes []byte
}

// portable makes host memory page-locked for all devices.
const portable = 1

// AllocHost implements cuda.Device.
func (d *device) AllocHost(bytes int64) (cuda.HostMemory, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("cuda: allocation of %d bytes", bytes)
	}
	memory, err := syscall.Mmap(
		-1,
		0,
		int(bytes),
		syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE,
	)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of host memory: %w: %w", bytes, cuda.ErrOutOfMemory, err)
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // before it is locked and its pages are allocated
	if err := d.lock(pointer(memory), bytes); err != nil {
		return nil, errors.Join(err, syscall.Munmap(memory))
	}
	at := pointer(memory)
	d.host.add(span{start: at, end: at.Offset(bytes), free: func() error { return d.unlock(memory) }})
	return &hostMemory{dev: d, bytes: memory}, nil
}

// unlock frees host memory. Memory that the driver keeps locked is not freed, since the driver
// would reject memory mapped there later.
func (d *device) unlock(memory []byte) error {
	err := d.callAnyway(d.context, "unlock host memory", d.lib.HostUnlock, uintptr(pointer(memory)))
	switch {
	case err == nil:
		return syscall.Munmap(memory)
	case d.lost.Load() != nil:
		return nil // the fault has been reported
	}
	return err
}

func (d *device) lock(at cuda.Ptr, bytes int64) error {
	return d.call(
		fmt.Sprintf("lock %d bytes of host memory", bytes),
		d.lib.HostLock,
		uintptr(at),
		uintptr(bytes),
		portable,
	)
}

// lockAgain locks all host memory again after the driver has forgotten it.
func (d *device) lockAgain() error {
	var errs []error
	for _, s := range d.host.all() {
		if s.kind == shared {
			continue // its owner has locked it for all devices
		}
		errs = append(errs, d.lock(s.start, int64(s.end-s.start)))
	}
	return errors.Join(errs...)
}

// ShareHost implements cuda.HostSharer. Host memory is page-locked for all devices of the driver.
func (d *device) ShareHost(memory cuda.HostMemory) (release func(), err error) {
	theirs, ok := memory.(*hostMemory)
	switch {
	case !ok:
		return nil, fmt.Errorf("cuda: GPU %d cannot use host memory of a %T: %w", d.info.Index, memory,
			errors.ErrUnsupported)
	case theirs.dev == d:
		return func() {}, nil
	}
	at := pointer(theirs.bytes)
	d.host.add(span{start: at, end: at.Offset(int64(len(theirs.bytes))), kind: shared,
		free: func() error { return nil }})
	return func() { d.host.take(at, shared) }, nil
}

// Locked implements cuda.HostLocks.
func (d *device) Locked(host []byte) bool { return d.host.covers(pointer(host), int64(len(host))) }

// pointer returns the address of b.
func pointer(b []byte) cuda.Ptr { return cuda.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func (h *hostMemory) Bytes() []byte { return h.bytes }

func (h *hostMemory) Free() error {
	s, ok := h.dev.host.take(pointer(h.bytes), allocated)
	if !ok {
		return errors.New("cuda: host memory was already freed")
	}
	return s.free()
}

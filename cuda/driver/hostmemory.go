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

// hostMemory is memory of the process that the driver has locked. It is not the driver's, so that it stays when a lost device is
// opened again: whoever has it may be reading it.
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
	memory, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of host memory: %w: %w", bytes, cuda.ErrOutOfMemory, err)
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // before it is locked, and with it every page where it is
	if err := d.lock(pointer(memory), bytes); err != nil {
		return nil, errors.Join(err, syscall.Munmap(memory))
	}
	at := pointer(memory)
	d.host.add(span{start: at, end: at.Offset(bytes), free: func() error { return d.unlock(memory) }})
	return &hostMemory{dev: d, bytes: memory}, nil
}

// unlock gives host memory back. What the driver keeps locked stays where it is: it would refuse whatever came to lie there next.
func (d *device) unlock(memory []byte) error {
	err := d.callAnyway(d.context, "unlock host memory", d.lib.HostUnlock, uintptr(pointer(memory)))
	switch {
	case err == nil:
		return syscall.Munmap(memory)
	case d.lost.Load() != nil:
		return nil // which the fault has said
	}
	return err
}

func (d *device) lock(at cuda.Ptr, bytes int64) error {
	return d.call(fmt.Sprintf("lock %d bytes of host memory", bytes), d.lib.HostLock, uintptr(at), uintptr(bytes), portable)
}

// lockAgain locks all host memory, which the driver has forgotten.
func (d *device) lockAgain() error {
	var errs []error
	for _, s := range d.host.all() {
		errs = append(errs, d.lock(s.start, int64(s.end-s.start)))
	}
	return errors.Join(errs...)
}

// Locked implements cuda.HostLocks.
func (d *device) Locked(host []byte) bool { return d.host.covers(pointer(host), int64(len(host))) }

// pointer is where b is.
func pointer(b []byte) cuda.Ptr { return cuda.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func (h *hostMemory) Bytes() []byte { return h.bytes }

func (h *hostMemory) Free() error {
	s, ok := h.dev.host.take(pointer(h.bytes), allocated)
	if !ok {
		return errors.New("cuda: host memory was freed before")
	}
	return s.free()
}

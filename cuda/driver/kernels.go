//go:build linux

package driver

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// Modules provide the kernels of a device.
type Modules interface {
	// Code returns PTX modules for a compute capability, or none.
	Code(major, minor int) [][]byte
	// Launch returns an op's entry point and launch geometry; ok is false if the modules do not
	// have it.
	Launch(op cuda.Op) (entry string, g kernels.Geometry, ok bool)
}

// Embedded are the kernels embedded in the program.
type Embedded struct{}

func (Embedded) Code(major, minor int) [][]byte { return kernels.Code(major, minor) }

func (Embedded) Launch(op cuda.Op) (string, kernels.Geometry, bool) { return kernels.Launch(op) }

// code is the code loaded onto a device.
type code struct {
	modules   Modules
	libraries []uintptr
	kernels   sync.Map // entry point → *kernel
}

type kernel struct {
	handle uintptr
	shared atomic.Uint32 // current limit of dynamic shared memory
}

// load compiles all modules with the driver, once.
func (d *device) load(m Modules) error {
	d.code.modules = m
	for _, ptx := range m.Code(d.lib.fact(d.handle, computeMajor), d.lib.fact(d.handle, computeMinor)) {
		text, handle := append(ptx[:len(ptx):len(ptx)], 0), out[uintptr]()
		err := d.call("compile kernels", d.lib.LibraryLoad, address(handle), address(&text[0]))
		runtime.KeepAlive(text)
		if err != nil {
			return err
		}
		d.code.libraries = append(d.code.libraries, *handle)
	}
	return nil
}

func (d *device) unload() error {
	var errs []error
	for _, handle := range d.code.libraries {
		errs = append(errs, d.giveBack("unload kernels", d.lib.LibraryUnload, handle))
	}
	d.code.libraries = nil
	return errors.Join(errs...)
}

// kernel finds an entry point and raises its limit of shared memory if needed.
func (d *device) kernel(entry string, shared uint32) (uintptr, error) {
	k, err := d.lookup(entry)
	if err != nil {
		return 0, err
	}
	if had := k.shared.Load(); shared > had {
		err := d.call(
			"set the shared memory of "+entry,
			d.lib.KernelAttribute,
			dynamicShared,
			uintptr(shared),
			k.handle,
			d.handle,
		)
		if err != nil {
			return 0, err
		}
		k.shared.CompareAndSwap(had, shared)
	}
	return k.handle, nil
}

const (
	dynamicShared = 8        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	plainShared   = 48 << 10 // limit for every kernel
)

func (d *device) lookup(entry string) (*kernel, error) {
	if k, ok := d.code.kernels.Load(entry); ok {
		return k.(*kernel), nil
	}
	name, handle := append([]byte(entry), 0), out[uintptr]()
	for _, library := range d.code.libraries {
		err := d.call("find kernel "+entry, d.lib.LibraryKernel, address(handle), library, address(&name[0]))
		runtime.KeepAlive(name)
		if err == nil {
			k := &kernel{handle: *handle}
			k.shared.Store(plainShared)
			found, _ := d.code.kernels.LoadOrStore(entry, k)
			return found.(*kernel), nil
		}
	}
	if err := d.usable(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: no module has %s", cuda.ErrUnknownKernel, entry)
}

// Launch implements cuda.Stream.
func (s *stream) Launch(op cuda.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op, ok := op.(kernels.MatMul); ok && s.multiplies(op) {
		return s.multiply(op)
	}
	return s.launch(op)
}

// launch queues a kernel. The op itself is its only parameter. The lock is held.
func (s *stream) launch(op cuda.Op) error {
	entry, g, ok := s.dev.code.modules.Launch(op)
	if !ok {
		return fmt.Errorf("%w: %s", cuda.ErrUnknownKernel, op.Kernel())
	}
	fn, err := s.dev.kernel(entry, g.SharedBytes)
	if err != nil {
		return err
	}
	if g.GridX == 0 { // an empty grid is an error on a GPU
		return s.ready()
	}
	parameters, err := s.argument(op)
	if err != nil {
		return err
	}
	return s.queue(op.Kernel(), s.dev.lib.Launch, fn, uintptr(g.GridX), uintptr(g.GridY), uintptr(g.GridZ),
		uintptr(g.BlockX), uintptr(g.BlockY), uintptr(g.BlockZ), uintptr(g.SharedBytes), s.handle, parameters, 0)
}

const word = 8

// argument copies op to memory that stays in place until the list has crossed, and returns the
// address of a pointer to it, as cuLaunchKernel expects.
func (s *stream) argument(op cuda.Op) (uintptr, error) {
	bytes := raw(op)
	slot, err := s.slot(op.Kernel(), word+len(bytes))
	if err != nil {
		return 0, err
	}
	*(*uintptr)(unsafe.Pointer(&slot[0])) = address(&slot[word])
	copy(slot[word:], bytes)
	return address(&slot[0]), nil
}

// slot returns memory for the command that is queued next.
func (s *stream) slot(op string, bytes int) ([]byte, error) {
	size := (bytes + word - 1) / word * word
	if size > cap(s.arguments) {
		return nil, fmt.Errorf("cuda: %s has %d bytes of arguments, more than %d", op, bytes, cap(s.arguments))
	}
	if len(s.arguments)+size > cap(s.arguments) || s.list.n == len(s.commands) {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	from := len(s.arguments)
	s.arguments = s.arguments[:from+size]
	return s.arguments[from:], nil
}

// raw returns the memory of op, a struct without pointers.
func raw(op cuda.Op) []byte {
	type contents struct{ kind, data unsafe.Pointer }
	return unsafe.Slice((*byte)((*contents)(unsafe.Pointer(&op)).data), reflect.TypeOf(op).Size())
}

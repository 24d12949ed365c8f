//go:build linux

package driver

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"troupe/cuda"
)

// device is a GPU with its primary context, which is shared by the whole process.
type device struct {
	lib     *Library
	info    cuda.Info
	handle  uintptr // CUdevice
	context uintptr // CUcontext
	lost    atomic.Pointer[cuda.Fault]

	memory spans    // device memory with addresses
	host   spans    // page-locked
	ranges spans    // reserved addresses
	owned  sync.Map // object without an address → func() error that frees it
	events events
	code   code
	blas   *blas  // nil if products use the built-in kernels
	noBLAS string // why blas is nil

	blasVersion atomic.Int32 // 120405 for 12.4.5

	mu      sync.Mutex
	streams map[*stream]struct{}
	closed  bool
}

// Open opens a device with the kernels in m.
func (l *Library) Open(index int, m Modules) (cuda.Device, error) {
	info, handle, err := l.describeDevice(index)
	if err != nil {
		return nil, err
	}
	context := out[uintptr]()
	// An error means that the device is already in use with other scheduling flags.
	_ = l.call("set the scheduling flags", l.ContextFlags, handle, blockingWaits)
	if err := l.call("open the device", l.ContextRetain, address(context), handle); err != nil {
		return nil, fmt.Errorf("GPU %d: %w", index, err)
	}
	d := &device{
		lib:     l,
		info:    info,
		handle:  handle,
		context: *context,
		events:  events{context: *context},
		streams: map[*stream]struct{}{},
		noBLAS:  l.noBLAS,
	}
	if err := d.load(m); err != nil {
		return nil, errors.Join(fmt.Errorf("GPU %d: %w", index, err), d.Close())
	}
	if err := d.tryBLAS(); err != nil {
		return nil, errors.Join(fmt.Errorf("GPU %d: %w", index, err), d.Close())
	}
	return d, nil
}

// blockingWaits makes waiting threads sleep instead of spin: CU_CTX_SCHED_BLOCKING_SYNC.
const blockingWaits = 4

func (d *device) Info() cuda.Info { return d.info }

// call calls a function in the device's context.
func (d *device) call(op string, fn symbol, args ...uintptr) error {
	return d.callIn(d.context, op, fn, args...)
}

func (d *device) callIn(context uintptr, op string, fn symbol, args ...uintptr) error {
	if err := d.usable(); err != nil {
		return err
	}
	return d.callAnyway(context, op, fn, args...)
}

// callAnyway is like callIn, but also calls a lost device. Use it to free something.
func (d *device) callAnyway(context uintptr, op string, fn symbol, args ...uintptr) error {
	if fn.at == 0 {
		return unsupported(fn)
	}
	both := []command{{fn: d.lib.SetContext.at, args: [maxArgs]uintptr{context}}, {fn: fn.at}}
	copy(both[1].args[:], args)
	if _, result := cross(both); result != success {
		return d.failed(op, result)
	}
	return nil
}

// usable returns the fault that made the device unusable, or nil.
func (d *device) usable() error {
	if fault := d.lost.Load(); fault != nil {
		return fault
	}
	return nil
}

// failed returns the error for a result. A lasting one loses the device, and its first fault is
// returned from then on.
func (d *device) failed(op string, result int) error {
	err := d.lib.failure(op, result)
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) && fault.Lost {
		d.lost.CompareAndSwap(nil, fault)
		return d.lost.Load()
	}
	return err
}

func (d *device) Alloc(bytes int64) (cuda.Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("cuda: allocation of %d bytes", bytes)
	}
	p := out[cuda.Ptr]()
	if err := d.call(fmt.Sprintf("allocate %d bytes", bytes), d.lib.Alloc, address(p), uintptr(bytes)); err != nil {
		return 0, err
	}
	at := *p
	d.memory.add(
		span{
			start: at,
			end:   at.Offset(bytes),
			free:  func() error { return d.giveBack("free", d.lib.Free, uintptr(at)) },
		},
	)
	return at, nil
}

// giveBack frees an object of the driver. On a lost device it does nothing, since the fault has
// been reported.
func (d *device) giveBack(op string, fn symbol, args ...uintptr) error {
	err := d.callAnyway(d.context, op, fn, args...)
	if d.lost.Load() != nil {
		return nil
	}
	return err
}

func (d *device) Free(p cuda.Ptr) error {
	s, ok := d.memory.take(p, allocated)
	if !ok {
		return fmt.Errorf("cuda: %#x was not allocated or was already freed", uint64(p))
	}
	if err := s.free(); err != nil {
		d.memory.add(s)
		return err
	}
	return nil
}

// Memory returns 0 free bytes for a lost device.
func (d *device) Memory() (free, total int64) {
	left, all := out[uint64](), out[uint64]()
	if err := d.call("query free memory", d.lib.Info, address(left), address(all)); err != nil {
		return 0, d.info.MemoryBytes
	}
	return int64(*left), d.info.MemoryBytes
}

// Close finishes the work of all streams, closes them and frees everything.
func (d *device) Close() error {
	d.mu.Lock()
	was := d.closed
	d.closed = true
	d.mu.Unlock()
	if was {
		return nil
	}
	return errors.Join(d.empty(), d.host.giveBack(), d.lib.call("close the device", d.lib.ContextRelease, d.handle))
}

// empty finishes the work of the streams and frees everything on the device.
func (d *device) empty() error {
	d.mu.Lock()
	streams := d.streams
	d.streams = map[*stream]struct{}{}
	d.mu.Unlock()
	var errs []error
	for s := range streams {
		errs = append(errs, s.shut())
	}
	errs = append(errs, d.memory.giveBack(), d.disownAll(), d.ranges.giveBack(), d.events.destroy(d), d.unload())
	return errors.Join(errs...)
}

// own keeps a function that frees an object until disown or Close.
func (d *device) own(what any, free func() error) { d.owned.Store(what, free) }

func (d *device) owns(what any) bool {
	_, ok := d.owned.Load(what)
	return ok
}

func (d *device) disown(what any) error {
	free, ok := d.owned.LoadAndDelete(what)
	if !ok {
		return errors.New("cuda: already closed or released")
	}
	return free.(func() error)()
}

func (d *device) disownAll() error {
	var errs []error
	for what := range d.owned.Range {
		errs = append(errs, d.disown(what))
	}
	return errors.Join(errs...)
}

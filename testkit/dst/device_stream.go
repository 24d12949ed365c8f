package dst

import (
	"fmt"
	"sync"

	"troupe/cuda"
)

// NewStream implements cuda.Device.
func (d *Device) NewStream(string) (cuda.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &stream{device: d}, d.check()
}

// stream runs work as soon as it is queued.
type stream struct {
	device *Device

	mu  sync.Mutex
	err error // the first fault
}

func (s *stream) fault(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// CopyIn implements cuda.Stream.
func (s *stream) CopyIn(dst cuda.Ptr, src []byte) error {
	return s.fault(s.device.access(dst, len(src), func(offset int, b []byte) { copy(b, src[offset:]) }))
}

// CopyOut implements cuda.Stream.
func (s *stream) CopyOut(dst []byte, src cuda.Ptr) error {
	return s.read(src, len(dst), func(offset int, b []byte) { copy(dst[offset:], b) })
}

// read calls use with the memory at an address, one mapped piece at a time.
func (s *stream) read(src cuda.Ptr, bytes int, use func(offset int, b []byte)) error {
	return s.fault(s.device.access(src, bytes, use))
}

// Copy implements cuda.Stream.
func (s *stream) Copy(dst, src cuda.Ptr, bytes int64) error {
	between := make([]byte, bytes)
	if err := s.CopyOut(between, src); err != nil {
		return err
	}
	return s.CopyIn(dst, between)
}

// Launch implements cuda.Stream. The device has no kernels.
func (s *stream) Launch(op cuda.Op) error {
	return fmt.Errorf("%s: %w", op.Kernel(), cuda.ErrUnknownKernel)
}

// Record implements cuda.Stream.
func (s *stream) Record() (cuda.Event, error) { return event{s}, s.fault(nil) }

// Wait implements cuda.Stream.
func (s *stream) Wait(cuda.Event) error { return s.fault(nil) }

// Sync implements cuda.Stream.
func (s *stream) Sync() error { return s.fault(nil) }

// Close implements cuda.Stream.
func (s *stream) Close() error { return nil }

// event is an event that has always occurred.
type event struct{ stream *stream }

func (e event) Done() bool  { return true }
func (e event) Sync() error { return e.stream.fault(nil) }

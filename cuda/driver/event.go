//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"troupe/cuda"
)

// events are the driver's events of a device. They are made once and used again.
type events struct {
	mu   sync.Mutex
	idle []uintptr
	all  []uintptr
}

// noTiming makes an event cheaper.
const noTiming = 2

func (e *events) take(d *device) (uintptr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		handle := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return handle, nil
	}
	handle := out[uintptr]()
	if err := d.call("create an event", d.lib.EventCreate, address(handle), noTiming); err != nil {
		return 0, err
	}
	e.all = append(e.all, *handle)
	return *handle, nil
}

// put takes an event back that nobody asks about any more. What waits for it on a stream waits for that record of it.
func (e *events) put(handle uintptr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = append(e.idle, handle)
}

func (e *events) destroy(d *device) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, handle := range e.all {
		errs = append(errs, d.giveBack("destroy an event", d.lib.EventDestroy, handle))
	}
	e.all, e.idle = nil, nil
	return errors.Join(errs...)
}

// event is one record. Its handle goes back when it is done, or when it is garbage.
type event struct {
	stream  *stream
	cleanup runtime.Cleanup

	mu     sync.Mutex
	handle uintptr // 0 once it is done
	err    error   // the fault that was found instead
}

// Record implements cuda.Stream.
func (s *stream) Record() (cuda.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return nil, err
	}
	if s.capturing {
		return nil, errCapturing
	}
	handle, err := s.dev.events.take(s.dev)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.queue("record", s.dev.lib.EventRecord, handle, s.handle), s.flush()); err != nil {
		s.dev.events.put(handle)
		return nil, s.fault
	}
	e := &event{stream: s, handle: handle}
	e.cleanup = runtime.AddCleanup(e, s.dev.events.put, handle)
	return e, nil
}

// Wait implements cuda.Stream.
func (s *stream) Wait(of cuda.Event) error {
	e, ok := of.(*event)
	if !ok || e.stream.dev.lib != s.dev.lib {
		return fmt.Errorf("cuda: stream %s waits for an event of another driver", s.name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return err
	}
	if s.capturing {
		return errCapturing
	}
	if e.handle == 0 {
		return e.err
	}
	if err := s.queue("wait", s.dev.lib.StreamWait, s.handle, e.handle, 0); err != nil {
		return err
	}
	return s.flush() // before the event can be used again
}

func (e *event) Done() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handle == 0 {
		return true
	}
	_, result := cross(e.query())
	return e.finish(result)
}

func (e *event) Sync() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handle != 0 {
		e.finish(e.stream.dev.poll(e.query()))
	}
	return e.err
}

func (e *event) query() []command {
	return []command{e.stream.commands[0], {fn: e.stream.dev.lib.EventQuery.at, args: [maxArgs]uintptr{e.handle}}}
}

// finish takes the result of a query, and reports whether it is final.
func (e *event) finish(result int) bool {
	if result == notReady {
		return false
	}
	if result != success {
		e.err = e.stream.dev.failed("stream "+e.stream.name, result)
	}
	e.cleanup.Stop()
	e.stream.dev.events.put(e.handle)
	e.handle = 0
	return true
}

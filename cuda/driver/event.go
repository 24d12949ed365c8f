//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"troupe/cuda"
)

// events are the driver's events of a context, which are for its streams to record. They are made once and used again.
type events struct {
	context uintptr
	mu      sync.Mutex
	idle    []uintptr
	all     []uintptr
}

// eventFlags: who waits sleeps (1) and does not spin, and an event has no time, which makes it cheaper (2).
const eventFlags = 1 | 2

func (e *events) take(d *device) (uintptr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		handle := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return handle, nil
	}
	handle := out[uintptr]()
	if err := d.callIn(e.context, "create an event", d.lib.EventCreate, address(handle), eventFlags); err != nil {
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

	mu      sync.Mutex
	handle  uintptr // 0 once it has gone back
	waiting int     // calls of Sync that use it
	done    bool
	err     error // the fault that was found instead
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
	handle, err := s.events.take(s.dev)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.queue("record", s.dev.lib.EventRecord, handle, s.handle), s.flush()); err != nil {
		s.events.put(handle)
		return nil, s.fault
	}
	e := &event{stream: s, handle: handle}
	e.cleanup = runtime.AddCleanup(e, s.events.put, handle)
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
	if e.done {
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
	if !e.done {
		_, result := cross(e.stream.crossing(e.stream.dev.lib.EventQuery, e.handle))
		e.finish(result)
	}
	return e.done
}

func (e *event) Sync() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return e.err
	}
	e.waiting++
	e.mu.Unlock() // others may ask meanwhile
	lib := &e.stream.dev.lib.symbols
	result := await(e.stream.crossing(lib.EventQuery, e.handle), e.stream.crossing(lib.EventSync, e.handle))
	e.mu.Lock()
	e.waiting--
	e.finish(result)
	return e.err
}

// finish takes the result of a query. The handle goes back once nobody uses it.
func (e *event) finish(result int) {
	if result == notReady {
		return
	}
	if !e.done && result != success {
		e.err = e.stream.dev.failed("stream "+e.stream.name, result)
	}
	e.done = true
	if e.waiting == 0 && e.handle != 0 {
		e.cleanup.Stop()
		e.stream.events.put(e.handle)
		e.handle = 0
	}
}

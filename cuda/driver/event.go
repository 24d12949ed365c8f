//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"troupe/cuda"
)

// events is a pool of the driver's events of one context. They are created once and reused.
type events struct {
	context    uintptr
	mu         sync.Mutex
	idle       []pooled
	all        []uintptr
	generation int // number of times that all events of the context were destroyed
}

// pooled is an event handle of a generation. In a later generation the handle is invalid or belongs
// to another event.
type pooled struct {
	handle     uintptr // 0 means none
	generation int
}

// eventFlags: waiting threads sleep (1) and do not spin, and events have no timestamp, which makes
// them cheaper (2).
const eventFlags = 1 | 2

func (e *events) take(d *device) (pooled, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		p := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return p, nil
	}
	handle := out[uintptr]()
	if err := d.callIn(e.context, "create an event", d.lib.EventCreate, address(handle), eventFlags); err != nil {
		return pooled{}, err
	}
	e.all = append(e.all, *handle)
	return pooled{*handle, e.generation}, nil
}

// put returns an event that no caller queries any longer. A stream that waits for it still waits for
// that record.
func (e *events) put(p pooled) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.generation == e.generation { // a record may be collected long after the device was reopened
		e.idle = append(e.idle, p)
	}
}

func (e *events) has(p pooled) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.generation == e.generation
}

func (e *events) destroy(d *device) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, handle := range e.all {
		errs = append(errs, d.giveBack("destroy an event", d.lib.EventDestroy, handle))
	}
	e.all, e.idle = nil, nil
	e.generation++
	return errors.Join(errs...)
}

// event is one record. Its handle is returned when it is done or garbage collected.
type event struct {
	stream  *stream
	cleanup runtime.Cleanup

	mu      sync.Mutex
	pooled      // none once it was returned
	waiting int // number of Sync calls that use it
	done    bool
	err     error // why the stream failed before the event was done
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
	p, err := s.events.take(s.dev)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.queue("record", s.dev.lib.EventRecord, p.handle, s.handle), s.flush()); err != nil {
		s.events.put(p)
		return nil, s.fault
	}
	e := &event{stream: s, pooled: p}
	e.cleanup = runtime.AddCleanup(e, s.events.put, p)
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
	if e.over() {
		return e.err
	}
	if err := s.queue("wait", s.dev.lib.StreamWait, s.handle, e.handle, 0); err != nil {
		return err
	}
	return s.flush() // before the event can be reused
}

func (e *event) Done() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over() {
		_, result := cross(e.stream.crossing(e.stream.dev.lib.EventQuery, e.handle))
		e.finish(result)
	}
	return e.done
}

func (e *event) Sync() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over() {
		return e.err
	}
	e.waiting++
	e.mu.Unlock() // other calls may query meanwhile
	lib := &e.stream.dev.lib.symbols
	result := await(e.stream.crossing(lib.EventQuery, e.handle), e.stream.crossing(lib.EventSync, e.handle))
	e.mu.Lock()
	e.waiting--
	e.finish(result)
	return e.err
}

// over reports whether the driver no longer needs to be queried. After the context was emptied, the
// error is errClosed.
func (e *event) over() bool {
	if !e.done && !e.stream.events.has(e.pooled) {
		e.done, e.err = true, errClosed
	}
	return e.done
}

// finish records the result of a query, and returns the handle to the pool once no Sync uses it.
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
		e.stream.events.put(e.pooled)
		e.pooled = pooled{}
	}
}

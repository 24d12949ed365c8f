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
	idle    []pooled
	all     []uintptr
	era     int // of the context: how often all of its events were destroyed
}

// pooled is an event of an era. After that the handle is nobody's, or that of another one.
type pooled struct {
	handle uintptr // 0: none
	era    int
}

// eventFlags: who waits sleeps (1) and does not spin, and an event has no time, which makes it cheaper (2).
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
	return pooled{*handle, e.era}, nil
}

// put takes an event back that nobody asks about any more. What waits for it on a stream waits for that record of it.
func (e *events) put(p pooled) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.era == e.era { // the collector may find a record long after the device was opened again
		e.idle = append(e.idle, p)
	}
}

func (e *events) has(p pooled) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.era == e.era
}

func (e *events) destroy(d *device) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, handle := range e.all {
		errs = append(errs, d.giveBack("destroy an event", d.lib.EventDestroy, handle))
	}
	e.all, e.idle = nil, nil
	e.era++
	return errors.Join(errs...)
}

// event is one record. Its handle goes back when it is done, or when it is garbage.
type event struct {
	stream  *stream
	cleanup runtime.Cleanup

	mu      sync.Mutex
	pooled      // none once it has gone back
	waiting int // calls of Sync that use it
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
	return s.flush() // before the event can be used again
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
	e.mu.Unlock() // others may ask meanwhile
	lib := &e.stream.dev.lib.symbols
	result := await(e.stream.crossing(lib.EventQuery, e.handle), e.stream.crossing(lib.EventSync, e.handle))
	e.mu.Lock()
	e.waiting--
	e.finish(result)
	return e.err
}

// over reports whether nothing is to be asked of the driver any more. Who asks after the context was emptied is told that the stream is closed.
func (e *event) over() bool {
	if !e.done && !e.stream.events.has(e.pooled) {
		e.done, e.err = true, errClosed
	}
	return e.done
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
		e.stream.events.put(e.pooled)
		e.pooled = pooled{}
	}
}

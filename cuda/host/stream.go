package host

import (
	"errors"
	"fmt"
	"sync"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

var errClosed = errors.New("cuda: stream is closed")

// NewStream implements cuda.Device.
func (d *device) NewStream(name string) (cuda.Stream, error) {
	return d.newStream(name, func(op cuda.Op) { kernels.Run(&d.mem, d.pool.split, op) })
}

func (d *device) newStream(name string, kernel func(cuda.Op)) (cuda.Stream, error) {
	s := &stream{dev: d, name: name, kernel: kernel, ended: make(chan struct{})}
	s.more.L = &s.mu
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams == nil {
		return nil, fmt.Errorf("cuda: stream %s: the device is closed", name)
	}
	d.streams[s] = struct{}{}
	go s.work()
	return s, nil
}

// stream is a queue and the goroutine that works on it.
type stream struct {
	dev    *device
	name   string
	kernel func(cuda.Op) // runs a kernel on the workers of the device or of a partition

	mu     sync.Mutex
	more   sync.Cond // the queue is no longer empty, or the stream is closed
	queue  []command
	fault  error // sticky
	closed bool
	graph  *graph        // the current capture, or nil
	ended  chan struct{} // closed when the worker has ended
}

type kind uint8

const (
	launch kind = iota
	copyIn
	copyOut
	copyWithin
	copyPeer
	record
	wait
)

// command is one piece of work; its kind determines which fields are used.
type command struct {
	kind     kind
	op       cuda.Op
	event    *event
	host     []byte
	to, from cuda.Ptr
	bytes    int64
	peer     *device
}

func (s *stream) CopyIn(dst cuda.Ptr, src []byte) error {
	return s.give(command{kind: copyIn, to: dst, host: src})
}

func (s *stream) CopyOut(dst []byte, src cuda.Ptr) error {
	return s.give(command{kind: copyOut, host: dst, from: src})
}

func (s *stream) Copy(dst, src cuda.Ptr, bytes int64) error {
	return s.give(command{kind: copyWithin, to: dst, from: src, bytes: bytes})
}

func (s *stream) Launch(op cuda.Op) error {
	if !kernels.Known(op) {
		return fmt.Errorf("%w: %s", cuda.ErrUnknownKernel, op.Kernel())
	}
	return s.give(command{kind: launch, op: op})
}

func (s *stream) Record() (cuda.Event, error) {
	e := &event{dev: s.dev, done: make(chan struct{})}
	if err := s.give(command{kind: record, event: e}); err != nil {
		return nil, err
	}
	return e, nil
}

func (s *stream) Wait(e cuda.Event) error {
	ours, ok := e.(*event)
	if !ok || ours.dev != s.dev {
		return fmt.Errorf("cuda: stream %s waits for an event of another device", s.name)
	}
	return s.give(command{kind: wait, event: ours})
}

func (s *stream) Sync() error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	return e.Sync()
}

// give queues work, all of it or none.
func (s *stream) give(work ...command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.fault != nil:
		return s.fault
	case s.graph != nil:
		return s.graph.add(work)
	}
	s.queue = append(s.queue, work...)
	if len(s.queue) == len(work) {
		s.more.Signal()
	}
	return nil
}

// Close waits for the queued work.
func (s *stream) Close() error {
	s.dev.mu.Lock()
	delete(s.dev.streams, s)
	s.dev.mu.Unlock()
	s.shut()
	return nil
}

func (s *stream) shut() {
	s.mu.Lock()
	s.closed = true
	s.more.Signal()
	s.mu.Unlock()
	<-s.ended
}

// work processes the queue until the stream is closed. After a fault it only completes events.
func (s *stream) work() {
	defer close(s.ended)
	var batch []command
	var fault error
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.closed {
			s.more.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		batch, s.queue = s.queue, batch[:0]
		s.mu.Unlock()
		for i, c := range batch {
			if fault == nil {
				if fault = s.do(c); fault != nil {
					s.fail(fault)
				}
			}
			if c.kind == record {
				c.event.err = fault
				close(c.event.done)
			}
			batch[i] = command{} // drops its references
		}
	}
}

func (s *stream) fail(fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *stream) do(c command) error {
	switch c.kind {
	case record:
		return nil
	case wait:
		if err := c.event.Sync(); err != nil {
			return fmt.Errorf("cuda: stream %s waited for work that failed: %w", s.name, err)
		}
		return nil
	}
	name := c.name()
	if s.dev.Inject != nil {
		if err := s.dev.Inject(name); err != nil {
			return &cuda.Fault{Op: name, Reason: err.Error(), Lost: errors.Is(err, cuda.ErrDeviceLost)}
		}
	}
	return s.run(c, name)
}

// run executes a kernel or a copy; a panic in it becomes a fault.
func (s *stream) run(c command, name string) (err error) {
	d := s.dev
	defer d.hold(c.peer)()
	defer func() {
		if p := recover(); p != nil {
			err = &cuda.Fault{Op: name, Reason: fmt.Sprint(p)}
		}
	}()
	switch c.kind {
	case launch:
		s.kernel(c.op)
	case copyIn:
		copy(d.mem.Bytes(c.to, int64(len(c.host))), d.hostMem.locked(c.host))
	case copyOut:
		copyCached(d.hostMem.locked(c.host), d.mem.Bytes(c.from, int64(len(c.host))))
	case copyWithin:
		copy(d.mem.Bytes(c.to, c.bytes), d.mem.Bytes(c.from, c.bytes))
	case copyPeer:
		copy(d.mem.Bytes(c.to, c.bytes), c.peer.mem.Bytes(c.from, c.bytes))
	}
	return nil
}

func (c command) name() string {
	if c.kind == launch {
		return c.op.Kernel()
	}
	return [...]string{copyIn: "copy in", copyOut: "copy out", copyWithin: "copy", copyPeer: "copy"}[c.kind]
}

type event struct {
	dev  *device
	done chan struct{}
	err  error // the fault before the event, if any; valid once done
}

func (e *event) Done() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (e *event) Sync() error {
	<-e.done
	return e.err
}

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
	s := &stream{dev: d, name: name, ended: make(chan struct{})}
	s.more.L = &s.mu
	d.mu.Lock()
	if d.streams == nil {
		d.streams = make(map[*stream]struct{})
	}
	d.streams[s] = struct{}{}
	d.mu.Unlock()
	go s.work()
	return s, nil
}

// stream is a queue and the goroutine that empties it.
type stream struct {
	dev  *device
	name string

	mu     sync.Mutex
	more   sync.Cond // the queue is no longer empty, or the stream is closed
	queue  []command
	fault  error // sticky
	closed bool
	ended  chan struct{} // closed when the worker has ended
}

// command is one piece of work: exactly one of op, event, wait, or a copy.
type command struct {
	op       cuda.Op
	event    *event // to mark as done
	wait     *event // to wait for
	dst, src []byte // host side of a copy
	to, from cuda.Ptr
	bytes    int64
}

func (s *stream) CopyIn(dst cuda.Ptr, src []byte) error  { return s.give(command{to: dst, src: src}) }
func (s *stream) CopyOut(dst []byte, src cuda.Ptr) error { return s.give(command{dst: dst, from: src}) }
func (s *stream) Copy(dst, src cuda.Ptr, n int64) error {
	return s.give(command{to: dst, from: src, bytes: n})
}
func (s *stream) Launch(op cuda.Op) error { return s.give(command{op: op}) }

func (s *stream) give(c command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.fault != nil:
		return s.fault
	}
	s.queue = append(s.queue, c)
	if len(s.queue) == 1 {
		s.more.Signal()
	}
	return nil
}

func (s *stream) Record() (cuda.Event, error) {
	e := &event{stream: s, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.queue = append(s.queue, command{event: e})
	s.more.Signal()
	return e, nil
}

func (s *stream) Wait(e cuda.Event) error {
	ours, ok := e.(*event)
	if !ok || ours.stream.dev != s.dev {
		return errors.New("cuda: the event is of another device")
	}
	return s.give(command{wait: ours})
}

func (s *stream) Sync() error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	return e.Sync()
}

// Close waits for the work that was given.
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

// work empties the queue until the stream is closed.
func (s *stream) work() {
	defer close(s.ended)
	var batch []command
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
		faulty := s.fault != nil
		s.mu.Unlock()
		for i, c := range batch {
			faulty = s.do(c, faulty) || faulty
			batch[i] = command{}
		}
	}
}

// do runs one command, and reports whether it faulted. After a fault, only events go on.
func (s *stream) do(c command, faulty bool) (fault bool) {
	switch {
	case c.event != nil:
		close(c.event.done)
	case c.wait != nil:
		<-c.wait.done
	case !faulty:
		if err := s.run(c); err != nil {
			s.mu.Lock()
			s.fault = err
			s.mu.Unlock()
			return true
		}
	}
	return false
}

func (s *stream) run(c command) (err error) {
	name := c.name()
	defer func() {
		if p := recover(); p != nil {
			err = &cuda.Fault{Op: name, Reason: fmt.Sprint(p)}
		}
	}()
	if s.dev.Inject != nil {
		if err := s.dev.Inject(name); err != nil {
			return &cuda.Fault{Op: name, Reason: err.Error()}
		}
	}
	mem := &s.dev.mem
	switch {
	case c.op != nil:
		if !kernels.Run(mem, s.dev.pool.split, c.op) {
			return fmt.Errorf("%w: %s", cuda.ErrUnknownKernel, name)
		}
	case c.src != nil:
		copy(mem.Bytes(c.to, int64(len(c.src))), c.src)
	case c.dst != nil:
		copy(c.dst, mem.Bytes(c.from, int64(len(c.dst))))
	default:
		copy(mem.Bytes(c.to, c.bytes), mem.Bytes(c.from, c.bytes))
	}
	return nil
}

func (c command) name() string {
	switch {
	case c.op != nil:
		return c.op.Kernel()
	case c.src != nil:
		return "copy in"
	case c.dst != nil:
		return "copy out"
	}
	return "copy"
}

type event struct {
	stream *stream
	done   chan struct{}
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
	e.stream.mu.Lock()
	defer e.stream.mu.Unlock()
	return e.stream.fault
}

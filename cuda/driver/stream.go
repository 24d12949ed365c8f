//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"troupe/cuda"
)

const (
	// listCommands is the maximum number of commands per crossing. Each costs the library a
	// microsecond, so the device starts on the first ones while the rest is handed over.
	listCommands = 64
	// argumentBytes is the space for the arguments of the kernels in a list.
	argumentBytes = 16 << 10
)

var errClosed = errors.New("cuda: stream is closed")

// stream queues work until a list is full or a caller waits.
type stream struct {
	dev    *device
	name   string
	events *events // of the stream's context: the device's or a partition's
	handle uintptr

	mu        sync.Mutex
	list      list
	commands  [1 + listCommands]command // the first sets the context
	ops       [1 + listCommands]string  // name of each, for errors
	arguments []byte                    // of queued kernels; never grows, since commands point into it
	product   *product                  // nil until needed
	fault     error                     // sticky
	capturing bool
	closed    bool
}

// nonBlocking makes a stream independent of the context's default stream.
const nonBlocking = 1

// NewStream implements cuda.Device.
func (d *device) NewStream(name string) (cuda.Stream, error) {
	s, err := d.newStream(name, &d.events, func(handle uintptr) error {
		return d.call("create stream "+name, d.lib.StreamCreate, handle, nonBlocking, 0)
	})
	if err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return s, nil
}

func (d *device) newStream(name string, e *events, create func(handle uintptr) error) (*stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("cuda: stream %s: the device is closed", name)
	}
	handle := out[uintptr]()
	if err := create(address(handle)); err != nil {
		return nil, err
	}
	s := &stream{dev: d, name: name, events: e, handle: *handle, arguments: make([]byte, 0, argumentBytes)}
	s.commands[0] = command{fn: d.lib.SetContext.at, args: [maxArgs]uintptr{e.context}}
	s.list = list{commands: &s.commands[0], n: 1}
	d.streams[s] = struct{}{}
	return s, nil
}

// queue adds one command. The lock is held.
func (s *stream) queue(op string, fn symbol, args ...uintptr) error {
	if err := s.ready(); err != nil {
		return err
	}
	if fn.at == 0 {
		return unsupported(fn)
	}
	if s.list.n == len(s.commands) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	c := &s.commands[s.list.n]
	c.fn = fn.at
	copy(c.args[:], args)
	s.ops[s.list.n] = op
	s.list.n++
	return nil
}

// ready returns the error that makes the stream reject work, if any.
func (s *stream) ready() error {
	if s.closed {
		return errClosed
	}
	if err := s.dev.usable(); err != nil {
		return err
	}
	return s.fault
}

// flush hands over the queued commands. A failure is a fault of the stream, and the commands after
// it are dropped.
func (s *stream) flush() error {
	if s.list.n == 1 || s.fault != nil {
		return s.fault
	}
	s.list.done, s.list.result = 0, success
	s.list.run()
	s.list.n, s.arguments = 1, s.arguments[:0]
	if s.list.result != success {
		s.fault = s.failed(s.list.done, s.list.result)
	}
	return s.fault
}

// failed returns the error for the result of a command. A copy from another device can fail because of
// that device: as long as the stream's own context works, its device is not lost.
func (s *stream) failed(n, result int) error {
	if s.commands[n].fn == s.dev.lib.CopyPeer.at {
		if _, own := cross(s.crossing(s.dev.lib.StreamQuery, s.handle)); own == success || own == notReady {
			return fmt.Errorf("cuda: the other device: %w", s.dev.lib.peerFailure(s.ops[n], result))
		}
	}
	return s.dev.failed(s.ops[n], result)
}

// Sync implements cuda.Stream.
func (s *stream) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return err
	}
	if s.capturing {
		return errCapturing
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.drain()
}

// drain waits for the work that was handed over.
func (s *stream) drain() error {
	query, wait := s.crossing(s.dev.lib.StreamQuery, s.handle), s.crossing(s.dev.lib.StreamSync, s.handle)
	if result := await(query, wait); result != success {
		s.fault = s.dev.failed("stream "+s.name, result)
	}
	return s.fault
}

// crossing returns a call of fn in the stream's context.
func (s *stream) crossing(fn symbol, handle uintptr) []command {
	return []command{s.commands[0], {fn: fn.at, args: [maxArgs]uintptr{handle}}}
}

// spinTime is how long a wait polls: longer than short copies take, and too short to matter.
const spinTime = 10 * time.Microsecond

// await waits for the state that query checks, first by polling and then by a blocking call.
func await(query, wait []command) (result int) {
	for start := time.Now(); time.Since(start) < spinTime; runtime.Gosched() {
		if _, result = cross(query); result != notReady {
			return result
		}
	}
	_, result = cross(wait)
	return result
}

// Close implements cuda.Stream. It waits for the queued work.
func (s *stream) Close() error {
	s.dev.mu.Lock()
	delete(s.dev.streams, s)
	s.dev.mu.Unlock()
	return s.shut()
}

func (s *stream) shut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.dev.usable() == nil && s.flush() == nil {
		_ = s.drain() // the fault concerns only callers that wait
	}
	s.closed = true
	return errors.Join(
		s.endProduct(s.product),
		s.dev.giveBack("destroy stream "+s.name, s.dev.lib.StreamDestroy, s.handle),
	)
}

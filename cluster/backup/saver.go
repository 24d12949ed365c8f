package backup

import (
	"context"
	"errors"
	"sync"

	"troupe/actors/supervise"
)

// ErrClosed is returned by Save after Close.
var ErrClosed = errors.New("the node is stopping and no longer saves the copy of the desired state")

// Saver saves a state on request. Requests that arrive during a save share the next one. It is safe
// for concurrent use.
type Saver struct {
	rt   supervise.Runtime
	save func() error

	mu     sync.Mutex
	next   *round
	busy   bool
	closed bool
	idle   sync.WaitGroup
}

// round is one save. done is closed when it ends.
type round struct {
	done chan struct{}
	err  error
}

// NewSaver returns a Saver that calls save in goroutines of rt. Calls of save do not overlap.
func NewSaver(rt supervise.Runtime, save func() error) *Saver { return &Saver{rt: rt, save: save} }

// Request schedules a save and does not wait for it.
func (s *Saver) Request() { s.request() }

// Save saves the state as of this call or later, and waits for the result.
func (s *Saver) Save(ctx context.Context) error {
	r := s.request()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Saver) request() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		r := &round{done: make(chan struct{}), err: ErrClosed}
		close(r.done)
		return r
	}
	if s.next == nil {
		s.next = &round{done: make(chan struct{})}
	}
	if !s.busy {
		s.busy = true
		supervise.GoIn(s.rt, &s.idle, s.run)
	}
	return s.next
}

func (s *Saver) run() {
	for {
		s.mu.Lock()
		r := s.next
		s.next, s.busy = nil, r != nil
		s.mu.Unlock()
		if r == nil {
			return
		}
		r.err = s.save()
		close(r.done)
	}
}

// Close waits for all requested saves and rejects later ones.
func (s *Saver) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.idle.Wait()
}

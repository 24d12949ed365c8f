package backup

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed says that nothing is saved any more.
var ErrClosed = errors.New("the node stops, and saves nothing any more")

// Saver saves a state whenever it has changed. Requests that come while a save is under way share the
// next one. It is safe for concurrent use.
type Saver struct {
	save func() error

	mu     sync.Mutex
	next   *round
	busy   bool
	closed bool
	idle   sync.WaitGroup
}

// round is one save; done is closed at its end.
type round struct {
	done chan struct{}
	err  error
}

// NewSaver returns a Saver that saves by calling save, which is never called twice at once.
func NewSaver(save func() error) *Saver { return &Saver{save: save} }

// Request has the state saved soon. It does not wait.
func (s *Saver) Request() { s.request() }

// Save returns once the state, as it was when Save was called or later, is saved.
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
		s.idle.Go(s.run)
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

// Close returns once all that was requested is saved.
func (s *Saver) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.idle.Wait()
}

package bulk

import (
	"context"
	"slices"
)

const (
	// share is the part of the free window that a stream may have in flight, as a divisor.
	share = 8

	// turnBytes are sent in one turn, or one chunk: enough that a turn costs little beside its bytes.
	turnBytes = 256 << 10
)

// release gives places in the window back. l.mu is held, as in unqueue and grant.
func (l *link) release(s *sending, bytes int) {
	s.inflight -= bytes
	l.inflight -= bytes
}

func (l *link) unqueue(s *sending) {
	s.asking = false
	l.waiting = slices.DeleteFunc(l.waiting, func(w *sending) bool { return w == s })
}

// grant gives places in the window to those who wait, in turn. None may have more in flight than a share of what it leaves free: a
// stream with a slow sink thus waits for itself. Each may have one chunk, and where that finds no place, those behind it wait.
func (l *link) grant() {
	kept, full := l.waiting[:0], false
	for _, s := range l.waiting {
		for !full && s.granted < min(s.atOnce, len(s.todo)) && l.fits(s) {
			l.release(s, -s.cost())
			s.granted++
		}
		if s.granted == 0 {
			full = full || s.inflight == 0
			kept = append(kept, s)
			continue
		}
		s.asking = false
		s.poke()
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
}

// fits reports whether a stream may have one more chunk in flight.
func (l *link) fits(s *sending) bool {
	free := l.window - l.inflight
	return s.cost() <= free && (s.inflight == 0 || s.inflight+s.cost() <= free/share)
}

// next waits for places in the window, and returns the chunks that have one. There are none when all have been acknowledged.
func (l *link) next(ctx context.Context, s *sending) (indices []uint32, err error) {
	for ctx.Err() == nil {
		indices, ready, err := l.step(s)
		if ready {
			return indices, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		case <-l.lost:
		}
	}
	return nil, context.Cause(ctx)
}

// step is next, or not ready.
func (l *link) step(s *sending) (indices []uint32, ready bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.failed == nil && len(s.todo) > 0 && s.chunkBytes > 0 && !s.asking && s.granted == 0 {
		s.asking = true
		l.waiting = append(l.waiting, s)
		l.grant()
	}
	switch {
	case s.failed != nil:
		return nil, true, s.failed
	case len(s.todo)+len(s.flying) == 0:
		return nil, true, nil
	case l.err != nil:
		return nil, true, l.err
	case s.granted > 0:
		return slices.Clone(s.todo[:s.granted]), true, nil
	}
	return nil, false, nil
}

// launch moves the first chunks that have places from what is to be done to what is in flight.
func (l *link) launch(s *sending, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	for _, index := range s.todo[:n] {
		s.flying[index] = struct{}{}
	}
	s.todo, s.granted = s.todo[n:], s.granted-n
	return nil
}

// recall takes back what was launched and not written.
func (l *link) recall(s *sending, indices []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, index := range indices {
		if s.flies(index) {
			delete(s.flying, index)
			l.release(s, s.cost())
		}
	}
	l.grant()
}

package bulk

import (
	"context"
	"slices"
)

const (
	// windowShare limits a stream to 1/windowShare of the free window in flight.
	windowShare = 8

	// batchBytes is the size of a batch, unless a chunk is larger. It is large enough that the cost
	// per batch is small.
	batchBytes = 256 << 10
)

// release frees window space. l.mu is held, also in unqueue and grant.
func (l *link) release(s *sending, bytes int) {
	s.inflight -= bytes
	l.inflight -= bytes
}

func (l *link) unqueue(s *sending) {
	s.waiting = false
	l.waiting = slices.DeleteFunc(l.waiting, func(w *sending) bool { return w == s })
}

// grant gives window space to waiting streams in order. No stream may have more in flight than a
// share of what it leaves free, so a stream with a slow sink waits for itself. Each stream may have
// one chunk; if that does not fit, the streams behind it wait.
func (l *link) grant() {
	kept, full := l.waiting[:0], false
	for _, s := range l.waiting {
		for !full && s.granted < min(s.batchChunks, len(s.todo)) && l.fits(s) {
			l.release(s, -s.cost())
			s.granted++
		}
		if s.granted == 0 {
			full = full || s.inflight == 0
			kept = append(kept, s)
			continue
		}
		s.waiting = false
		s.wake()
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
}

// fits reports whether a stream may have one more chunk in flight.
func (l *link) fits(s *sending) bool {
	free := l.window - l.inflight
	return s.cost() <= free && (s.inflight == 0 || s.inflight+s.cost() <= free/windowShare)
}

// next waits for window space and returns the chunks that have it. It returns none once all have
// been acknowledged.
func (l *link) next(ctx context.Context, s *sending) (indices []uint32, err error) {
	for ctx.Err() == nil {
		indices, ready, err := l.tryNext(s)
		if ready {
			return indices, err
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
		case <-l.lost:
		}
	}
	return nil, context.Cause(ctx)
}

// tryNext is next without waiting; ready is false if next must wait.
func (l *link) tryNext(s *sending) (indices []uint32, ready bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.failed == nil && len(s.todo) > 0 && s.chunkBytes > 0 && !s.waiting && s.granted == 0 {
		s.waiting = true
		l.waiting = append(l.waiting, s)
		l.grant()
	}
	switch {
	case s.failed != nil:
		return nil, true, s.failed
	case len(s.todo)+len(s.unacked) == 0:
		return nil, true, nil
	case l.err != nil:
		return nil, true, l.err
	case s.granted > 0:
		return slices.Clone(s.todo[:s.granted]), true, nil
	}
	return nil, false, nil
}

// markSent moves the first n chunks from todo to those in flight.
func (l *link) markSent(s *sending, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	for _, index := range s.todo[:n] {
		s.unacked[index] = struct{}{}
	}
	s.todo, s.granted = s.todo[n:], s.granted-n
	return nil
}

// markUnsent undoes markSent for chunks that were not written.
func (l *link) markUnsent(s *sending, indices []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, index := range indices {
		if s.isUnacked(index) {
			delete(s.unacked, index)
			l.release(s, s.cost())
		}
	}
	l.grant()
}

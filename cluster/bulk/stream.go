package bulk

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// sending is one call of Send. While it is attached to a link, the link's mutex guards it.
type sending struct {
	open   []byte              // payload of OPEN
	todo   []uint32            // in the order in which they go
	flying map[uint32]struct{} // sent, not answered
	tries  map[uint32]int      // of chunks that came damaged
	wake   chan struct{}       // something below has changed
	read   func(index uint32, into []byte) (int, error)

	stream     uint32
	chunkBytes int  // 0 until the receiver has opened the stream
	inflight   int  // bytes of the window
	asking     bool // waits for a place in the window
	granted    bool // has one, for todo[0]
	left       bool // nobody waits for it any more
	moved      bool // a chunk was acknowledged on this link
	failed     error
}

func (s *sending) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cost is what a chunk takes of the window.
func (s *sending) cost() int { return s.chunkBytes + frameCost }

func (s *sending) flies(index uint32) bool {
	_, ok := s.flying[index]
	return ok
}

// settle takes the answer for a chunk.
func (s *sending) settle(index uint32, intact bool) {
	delete(s.flying, index)
	if intact {
		s.moved = true
	} else if s.tries[index]++; s.tries[index] >= maxTries {
		s.failed = fmt.Errorf("%w: chunk %d, %d tries", ErrChecksum, index, maxTries)
	} else {
		s.todo = append(s.todo, index)
	}
	s.poke()
}

// attach opens a stream for what is left to do.
func (l *link) attach(s *sending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if len(l.streams) == 0 {
		l.heard.Store(time.Now().UnixNano())
	}
	l.last++
	s.stream, s.chunkBytes, s.moved = l.last, 0, false
	l.streams[s.stream] = s
	l.say(header{kind: open, stream: s.stream}, s.open)
	return nil
}

// detach closes the stream. On a lost connection what was in flight is to be done again; on another one it keeps its place in the
// window until the receiver has answered. It returns why the stream failed, if it did.
func (l *link) detach(s *sending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[s.stream] != s {
		return s.failed
	}
	if l.err != nil {
		l.peer.retries.Add(uint64(len(s.flying)))
		for index := range s.flying {
			s.todo = append(s.todo, index)
		}
		l.remove(s)
		return s.failed
	}
	l.say(header{kind: closing, stream: s.stream}, nil)
	if s.left = true; len(s.flying) == 0 {
		l.remove(s)
	}
	l.unqueue(s)
	l.grant()
	return s.failed
}

// remove ends a stream with all it had in flight. l.mu is held, as in all that follow.
func (l *link) remove(s *sending) {
	delete(l.streams, s.stream)
	l.since = time.Now()
	l.release(s, s.inflight)
	l.unqueue(s)
	clear(s.flying)
	s.granted = false
}

// release gives places in the window back.
func (l *link) release(s *sending, bytes int) {
	s.inflight -= bytes
	l.inflight -= bytes
}

func (l *link) unqueue(s *sending) {
	s.asking = false
	l.waiting = slices.DeleteFunc(l.waiting, func(w *sending) bool { return w == s })
}

// share is the part of the free window that a stream may have in flight, as a divisor.
const share = 8

// grant gives places in the window to those who wait, in turn. None may have more in flight than a share of what it leaves free: a
// stream with a slow sink thus waits for itself. Each may have one chunk, and where that finds no place, those behind it wait.
func (l *link) grant() {
	kept, full := l.waiting[:0], false
	for _, s := range l.waiting {
		free := l.window - l.inflight
		if full || s.cost() > free || s.inflight > 0 && s.inflight+s.cost() > free/share {
			full = full || s.inflight == 0
			kept = append(kept, s)
			continue
		}
		l.release(s, -s.cost())
		s.granted, s.asking = true, false
		s.poke()
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
}

// next waits for a place in the window for the next chunk. more is false when all have been acknowledged.
func (l *link) next(ctx context.Context, s *sending) (index uint32, more bool, err error) {
	for ctx.Err() == nil {
		index, more, ready, err := l.step(s)
		if ready {
			return index, more, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		case <-l.lost:
		}
	}
	return 0, false, context.Cause(ctx)
}

// step is next, or not ready.
func (l *link) step(s *sending) (index uint32, more, ready bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.failed == nil && len(s.todo) > 0 && s.chunkBytes > 0 && !s.asking && !s.granted {
		s.asking = true
		l.waiting = append(l.waiting, s)
		l.grant()
	}
	switch {
	case s.failed != nil:
		return 0, false, true, s.failed
	case len(s.todo)+len(s.flying) == 0:
		return 0, false, true, nil
	case l.err != nil:
		return 0, false, true, l.err
	case s.granted:
		return s.todo[0], true, true, nil
	}
	return 0, false, false, nil
}

// frame is a chunk to be written. Its buffer is the writer's until it says written.
type frame struct {
	buf     []byte // room for the header and the longest chunk
	bytes   []byte
	busy    bool
	written chan struct{}
}

// transmit reads the next chunk into a frame and hands it to the writer.
func (l *link) transmit(ctx context.Context, s *sending, index uint32, f *frame) error {
	if err := l.reclaim(ctx, f); err != nil {
		return err
	}
	n, err := s.read(index, f.buf[headerBytes:][:s.chunkBytes])
	if err == nil && (n < 0 || n > s.chunkBytes) {
		err = fmt.Errorf("%d bytes; the transfer has chunks of at most %d", n, s.chunkBytes)
	}
	if err != nil {
		return fmt.Errorf("read chunk %d: %w", index, err)
	}
	f.bytes = f.buf[:headerBytes+n]
	header{data, s.stream, index, uint32(n), checksum(f.bytes[headerBytes:])}.put(f.bytes)
	if err := l.launch(s); err != nil {
		return err
	}
	select {
	case l.frames <- f:
		f.busy = true
		l.peer.chunks.Add(1)
		l.peer.bytes.Add(uint64(n))
		return nil
	case <-ctx.Done():
		l.recall(s, index)
		return context.Cause(ctx)
	case <-l.lost:
		return l.err
	}
}

// reclaim waits until a frame has been written.
func (l *link) reclaim(ctx context.Context, f *frame) error {
	if !f.busy {
		return nil
	}
	select {
	case <-f.written:
		f.busy = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.lost:
		return l.err
	}
}

// launch moves the next chunk from what is to be done to what is in flight.
func (l *link) launch(s *sending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	s.flying[s.todo[0]] = struct{}{}
	s.todo = s.todo[1:]
	s.granted = false
	return nil
}

// recall takes back what was launched and not written.
func (l *link) recall(s *sending, index uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.flies(index) {
		delete(s.flying, index)
		l.release(s, s.cost())
	}
}

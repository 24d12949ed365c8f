package bulk

import (
	"fmt"
	"maps"
	"slices"
)

// sending is one call of Send. While it is attached to a link, the link's mutex guards it.
type sending struct {
	open    []byte              // payload of OPEN
	todo    []uint32            // unsent, in order
	unacked map[uint32]struct{} // sent, not acknowledged
	tries   map[uint32]int      // of chunks that arrived damaged
	changed chan struct{}       // signals a change of a field below
	read    func(index uint32, into []byte) (int, error)
	view    func(index uint32, use func(parts ...[]byte) error) error // nil: chunks are copied

	stream      uint32
	chunkBytes  int  // 0 until the receiver has opened the stream
	chunks      kind // kind of their frames; likewise
	inflight    int  // bytes of the window in use
	waiting     bool // waits for space in the window
	granted     int  // number of chunks of todo that have space
	batchChunks int  // chunks per batch
	abandoned   bool // Send has returned
	progressed  bool // a chunk was acknowledged on this link
	failed      error
}

func (s *sending) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// cost returns the window space of a chunk.
func (s *sending) cost() int { return s.chunkBytes + frameCost }

func (s *sending) isUnacked(index uint32) bool {
	_, ok := s.unacked[index]
	return ok
}

// handleAck handles the answer for a chunk.
func (s *sending) handleAck(index uint32, intact bool) {
	delete(s.unacked, index)
	if intact {
		s.progressed = true
	} else if s.tries[index]++; s.tries[index] >= maxTries {
		s.failed = fmt.Errorf("%w: chunk %d, %d tries", ErrChecksum, index, maxTries)
	} else {
		s.todo = append(s.todo, index)
	}
	s.wake()
}

// attach opens a stream for the remaining chunks.
func (l *link) attach(s *sending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if len(l.streams) == 0 {
		l.lastHeard.Store(l.peer.plane.now().UnixNano())
	}
	l.lastStream++
	s.stream, s.chunkBytes, s.progressed = l.lastStream, 0, false
	l.streams[s.stream] = s
	l.queueFrame(header{kind: open, stream: s.stream}, s.open)
	return nil
}

// detach closes the stream. Chunks in flight on a lost connection become unsent. On an open
// connection they keep their window space until the receiver has answered. detach returns the error
// of the stream, if it failed.
func (l *link) detach(s *sending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[s.stream] != s {
		return s.failed
	}
	if l.err != nil {
		l.peer.retries.Add(uint64(len(s.unacked)))
		s.todo = append(s.todo, slices.Sorted(maps.Keys(s.unacked))...)
		l.remove(s)
		return s.failed
	}
	l.queueFrame(header{kind: closing, stream: s.stream}, nil)
	if s.abandoned = true; len(s.unacked) == 0 {
		l.remove(s)
	}
	l.unqueue(s)
	l.grant()
	return s.failed
}

// remove ends a stream and frees its window space. l.mu is held, also in the functions below.
func (l *link) remove(s *sending) {
	delete(l.streams, s.stream)
	l.idleSince = l.peer.plane.now()
	l.release(s, s.inflight)
	l.unqueue(s)
	clear(s.unacked)
	s.granted = 0
}

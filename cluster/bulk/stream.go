package bulk

import (
	"fmt"
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
	view   func(index uint32, use func(parts ...[]byte) error) error // nil: chunks are to be copied

	stream     uint32
	chunkBytes int  // 0 until the receiver has opened the stream
	chunks     kind // of their frames; likewise
	inflight   int  // bytes of the window
	asking     bool // waits for a place in the window
	granted    int  // has places for so many of todo
	atOnce     int  // chunks that it may send in one turn
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
	s.granted = 0
}

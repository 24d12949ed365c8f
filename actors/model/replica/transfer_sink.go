package replica

import (
	"fmt"
	"sync"
	"time"
)

// transferSink receives the chunks of a transfer from the data plane's goroutines. It writes none
// after close.
type transferSink struct {
	write    func(index uint32, b []byte) error // to memory that only the transfer uses
	resident int                                // leading chunks that are already there, in shared memory

	mu         sync.Mutex
	received   []bool
	firstAt    time.Time // arrival of the first chunk
	firstBytes int       // size of the first chunk
	lastAt     time.Time // arrival of the last chunk so far
	bytes      int       // received
	closed     bool
}

// put writes a chunk. It returns an error if the chunk is not expected, or after close.
func (s *transferSink) put(index uint32, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || int(index) < s.resident || int(index) >= len(s.received) {
		return fmt.Errorf("unexpected chunk %d", index)
	}
	if err := s.write(index, b); err != nil {
		return err
	}
	s.received[index], s.lastAt = true, time.Now()
	s.bytes += len(b)
	if s.firstAt.IsZero() {
		s.firstAt, s.firstBytes = s.lastAt, len(b)
	}
	return nil
}

// close ends the transfer and reports whether it was open. No chunk is being written when it
// returns.
func (s *transferSink) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wasOpen := !s.closed
	s.closed = true
	return wasOpen
}

package transfer

import (
	"fmt"
	"sync"
	"time"

	"troupe/messages"
)

// sink receives the blocks of a sequence from the data plane's goroutines, one per chunk. It writes
// no block after close.
type sink struct {
	ticket   *messages.BulkTicket
	now      func() time.Time
	write    func(index uint32, b []byte) error // writes to memory that only the transfer uses
	resident int                                // number of leading blocks that are already there, in shared memory

	mu       sync.Mutex
	received []bool
	lastAt   time.Time // arrival of the last block so far
	closed   bool
}

// put writes a block. It returns an error if the block is unexpected or arrives after close.
func (s *sink) put(index uint32, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || int(index) < s.resident || int(index) >= len(s.received) {
		return fmt.Errorf("unexpected block %d", index)
	}
	if err := s.write(index, b); err != nil {
		return err
	}
	s.received[index], s.lastAt = true, s.now()
	return nil
}

// close ends the transfer. When it returns, no block is being written.
func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// complete reports whether the given number of leading blocks has arrived.
func (s *sink) complete(blocks int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if blocks > len(s.received) {
		return false
	}
	for i := s.resident; i < blocks; i++ {
		if !s.received[i] {
			return false
		}
	}
	return true
}

func (s *sink) lastChunkAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastAt
}

package copier

import (
	"fmt"
	"sync"
	"time"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// sink receives the chunks of a fetch from the data plane's goroutines. It writes no chunk after
// close.
type sink struct {
	write   func(index uint32, b []byte) error // writes to memory that only the fetch uses
	runtime supervise.Runtime
	began   time.Time
	chunks  int // number of expected chunks

	mu         sync.Mutex
	firstAt    time.Time // arrival of the first chunk
	firstBytes int       // size of the first chunk
	lastAt     time.Time // arrival of the last chunk so far
	bytes      int       // number of bytes received
	closed     bool
}

// put writes a chunk. It returns an error if the chunk is unexpected or arrives after close.
func (s *sink) put(index uint32, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || int(index) >= s.chunks {
		return fmt.Errorf("unexpected chunk %d", index)
	}
	if err := s.write(index, b); err != nil {
		return err
	}
	s.lastAt = s.runtime.Now()
	s.bytes += len(b)
	if s.firstAt.IsZero() {
		s.firstAt, s.firstBytes = s.lastAt, len(b)
	}
	return nil
}

// close ends the transfer. When it returns, no chunk is being written.
func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// measure records the bytes received and when they arrived.
func (s *sink) measure(f *kv.FetchSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Bytes, f.FirstBytes = int64(s.bytes), int64(s.firstBytes)
	f.First, f.All = s.runtime.Now().Sub(s.began), s.runtime.Now().Sub(s.began)
	if f.Bytes > 0 {
		f.First, f.All = s.firstAt.Sub(s.began), s.lastAt.Sub(s.began)
	}
}

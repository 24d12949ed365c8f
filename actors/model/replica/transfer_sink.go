package replica

import (
	"fmt"
	"sync"
	"time"
)

// inlet is where the chunks of a transfer come in, from the data plane's goroutines. None is written once it is shut.
type transferSink struct {
	write    func(index uint32, b []byte) error // to memory that belongs to nobody else
	resident int                                // leading chunks that are there already, and shared

	mu         sync.Mutex
	received   []bool
	firstAt    time.Time // a chunk came
	firstBytes int       // in it
	lastAt     time.Time // likewise, last
	bytes      int       // that came
	closed     bool
}

// put writes a chunk.
func (in *transferSink) put(index uint32, b []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || int(index) < in.resident || int(index) >= len(in.received) {
		return fmt.Errorf("chunk %d is not expected, or not any more", index)
	}
	if err := in.write(index, b); err != nil {
		return err
	}
	in.received[index], in.lastAt = true, time.Now()
	in.bytes += len(b)
	if in.firstAt.IsZero() {
		in.firstAt, in.firstBytes = in.lastAt, len(b)
	}
	return nil
}

// shut ends it, and reports whether it was open. When it returns, no chunk is being written.
func (in *transferSink) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	was := !in.closed
	in.closed = true
	return was
}

// whole reports whether all blocks are there, one a chunk, that hold so many tokens.
func (in *transferSink) complete(tokens, blockTokens int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	need := (tokens + blockTokens - 1) / blockTokens
	if need > len(in.received) {
		return false
	}
	for i := in.resident; i < need; i++ {
		if !in.received[i] {
			return false
		}
	}
	return true
}

// last is when a chunk came, if that is later than heard.
func (in *transferSink) lastChunkAt(heard time.Time) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.lastAt.After(heard) {
		return in.lastAt
	}
	return heard
}

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
func (in *transferSink) put(index uint32, b []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || int(index) < in.resident || int(index) >= len(in.received) {
		return fmt.Errorf("unexpected chunk %d", index)
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

// close ends the transfer and reports whether it was open. No chunk is being written when it
// returns.
func (in *transferSink) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	was := !in.closed
	in.closed = true
	return was
}

// complete reports whether all blocks with the given number of tokens have arrived, one block per
// chunk.
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

// lastChunkAt returns the later of heard and the arrival of the last chunk.
func (in *transferSink) lastChunkAt(heard time.Time) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.lastAt.After(heard) {
		return in.lastAt
	}
	return heard
}

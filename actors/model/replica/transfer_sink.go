package replica

import (
	"fmt"
	"sync"
	"time"
)

// inlet is where the chunks of a transfer come in, from the data plane's goroutines. None is written once it is shut.
type inlet struct {
	write    func(index uint32, b []byte) error // to memory that belongs to nobody else
	resident int                                // leading chunks that are there already, and shared

	mu         sync.Mutex
	got        []bool
	first      time.Time // a chunk came
	firstBytes int       // in it
	heard      time.Time // likewise, last
	bytes      int       // that came
	done       bool
}

// put writes a chunk.
func (in *inlet) put(index uint32, b []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.done || int(index) < in.resident || int(index) >= len(in.got) {
		return fmt.Errorf("chunk %d is not expected, or not any more", index)
	}
	if err := in.write(index, b); err != nil {
		return err
	}
	in.got[index], in.heard = true, time.Now()
	in.bytes += len(b)
	if in.first.IsZero() {
		in.first, in.firstBytes = in.heard, len(b)
	}
	return nil
}

// shut ends it, and reports whether it was open. When it returns, no chunk is being written.
func (in *inlet) shut() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	was := !in.done
	in.done = true
	return was
}

// whole reports whether all blocks are there, one a chunk, that hold so many tokens.
func (in *inlet) whole(tokens, blockTokens int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	need := (tokens + blockTokens - 1) / blockTokens
	if need > len(in.got) {
		return false
	}
	for i := in.resident; i < need; i++ {
		if !in.got[i] {
			return false
		}
	}
	return true
}

// last is when a chunk came, if that is later than heard.
func (in *inlet) last(heard time.Time) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.heard.After(heard) {
		return in.heard
	}
	return heard
}

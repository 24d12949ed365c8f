package replica

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// inlet is where the blocks of an arriving sequence come in, from the data plane's goroutines. Only blocks that belong to nobody
// else are written, and none once it is shut.
type inlet struct {
	life     context.Context
	blocks   Blocks
	table    []int32
	resident int // leading blocks of the table, which are shared

	mu    sync.Mutex
	got   []bool
	first time.Time // a block came
	heard time.Time // likewise, last
	done  bool
}

// put writes chunk index, which is the block at that place in the table.
func (in *inlet) put(index uint32, b []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.done || int(index) < in.resident || int(index) >= len(in.table) {
		return fmt.Errorf("block %d is not expected, or not any more", index)
	}
	if err := in.blocks.Write(in.life, in.table[index], b); err != nil {
		return err
	}
	in.got[index], in.heard = true, time.Now()
	if in.first.IsZero() {
		in.first = in.heard
	}
	return nil
}

// shut ends it, and reports whether it was open. When it returns, no block is being written.
func (in *inlet) shut() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	was := !in.done
	in.done = true
	return was
}

// whole reports whether all blocks are there that hold so many tokens.
func (in *inlet) whole(tokens, blockTokens int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	need := (tokens + blockTokens - 1) / blockTokens
	if need > len(in.table) {
		return false
	}
	for i := in.resident; i < need; i++ {
		if !in.got[i] {
			return false
		}
	}
	return true
}

// last is when a block came, if that is later than heard.
func (in *inlet) last(heard time.Time) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.heard.After(heard) {
		return in.heard
	}
	return heard
}

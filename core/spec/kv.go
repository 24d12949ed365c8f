package spec

import "fmt"

// KVTokenBytes is the memory that one token's keys and values take in all layers: 2 · layers · kvHeads · headDim · the
// size of an element.
func KVTokenBytes(layers, kvHeads, headDim int, elementBytes int64) int64 {
	return 2 * int64(layers) * int64(kvHeads) * int64(headDim) * elementBytes
}

// KVRequest asks how many blocks to give to a replica.
type KVRequest struct {
	Free          int64 // bytes that are left once the weights are loaded; may be negative
	BlockBytes    int64
	BlockTokens   int
	ContextTokens int // longest sequence
	MaxSequences  int // running at once
	Asked         int // blocks the operator asked for; 0: choose
}

// KVBlocks decides. Where the operator did not ask, it is what MaxSequences of full length could use, within half of what
// is free, and at least one sequence of full length, or all that is free if that is less. Blocks are 0 where nothing fits, and why says what is missing.
func KVBlocks(r KVRequest) (blocks int, why string) {
	if r.Free < 0 {
		return 0, fmt.Sprintf("short of memory by %s for the weights; delete a model, or use a larger device", FormatBytes(-r.Free))
	}
	fit := int(r.Free / r.BlockBytes)
	one := (r.ContextTokens + r.BlockTokens - 1) / r.BlockTokens
	switch {
	case r.Asked > fit:
		return 0, fmt.Sprintf("%d KV blocks of %s were asked for and %d fit; ask for fewer, or use a larger device",
			r.Asked, FormatBytes(r.BlockBytes), fit)
	case r.Asked > 0:
		return r.Asked, "as asked for"
	case fit == 0:
		return 0, fmt.Sprintf("no room for one KV block of %s beside the weights; use a larger device", FormatBytes(r.BlockBytes))
	case fit < one:
		return fit, fmt.Sprintf("all that is free; sequences are limited to %d tokens", fit*r.BlockTokens)
	}
	blocks = max(one, min(one*r.MaxSequences, fit/2))
	return blocks, fmt.Sprintf("%d sequences of full length", blocks/one)
}

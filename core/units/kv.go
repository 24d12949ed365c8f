package units

// KVTokenBytes is the memory that one token's keys and values take in all layers: 2 · layers · kvHeads · headDim · the
// size of an element.
func KVTokenBytes(layers, kvHeads, headDim int, elementBytes int64) int64 {
	return 2 * int64(layers) * int64(kvHeads) * int64(headDim) * elementBytes
}

// KVLeastTokens is how many tokens each of the sequences that may run at once has room for in any case.
const KVLeastTokens = 256

// KVSize is what the KV blocks of a replica depend on.
type KVSize struct {
	BlockTokens   int
	ContextTokens int // longest sequence
	MaxSequences  int // running at once
	Asked         int // blocks that the operator asked for; 0: as memory allows
}

// blocks is how many blocks hold so many tokens.
func (s KVSize) blocks(tokens int) int {
	size := max(1, s.BlockTokens)
	return max(1, (tokens+size-1)/size)
}

// Full is how many blocks the replica could use: what was asked for, or MaxSequences of full length.
func (s KVSize) Full() int {
	if s.Asked > 0 {
		return s.Asked
	}
	return s.blocks(s.ContextTokens) * max(1, s.MaxSequences)
}

// Least is how many blocks it has beside other replicas: what was asked for, or KVLeastTokens for each of MaxSequences, but
// one sequence of full length at least.
func (s KVSize) Least() int {
	if s.Asked > 0 {
		return s.Asked
	}
	return min(s.Full(), max(s.blocks(s.ContextTokens), s.blocks(KVLeastTokens*max(1, s.MaxSequences))))
}

// Floor is how many blocks it has where it is alone on a device: what was asked for, or one. Sequences are then limited to
// what there is.
func (s KVSize) Floor() int { return max(1, s.Asked) }

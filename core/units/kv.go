package units

// KVTokenBytes is the memory that one token's keys and values take in all layers: 2 · layers · kvHeads · headDim · the
// size of an element.
func KVTokenBytes(layers, kvHeads, headDim int, elementBytes int64) int64 {
	return 2 * int64(layers) * int64(kvHeads) * int64(headDim) * elementBytes
}

// MinSequenceTokens is how many tokens each of the sequences that may run at once has room for in any case.
const MinSequenceTokens = 256

// KVSize is what the KV blocks of a replica depend on.
type KVSize struct {
	BlockTokens   int
	ContextTokens int // longest sequence
	MaxSequences  int // running at once
	Requested     int // blocks that the operator asked for; 0: as memory allows
}

// blocks is how many blocks hold so many tokens.
func (s KVSize) blocks(tokens int) int {
	size := max(1, s.BlockTokens)
	return max(1, (tokens+size-1)/size)
}

// Max is how many blocks the replica could use: what was asked for, or MaxSequences of full length.
func (s KVSize) Max() int {
	if s.Requested > 0 {
		return s.Requested
	}
	return s.blocks(s.ContextTokens) * max(1, s.MaxSequences)
}

// Min is how many blocks it has beside other replicas: what was asked for, or MinSequenceTokens for each of MaxSequences, but
// one sequence of full length at least.
func (s KVSize) Min() int {
	if s.Requested > 0 {
		return s.Requested
	}
	return min(s.Max(), max(s.blocks(s.ContextTokens), s.blocks(MinSequenceTokens*max(1, s.MaxSequences))))
}

// MinAlone is how many blocks it has where it is alone on a device: what was asked for, or one. Sequences are then limited to
// what there is.
func (s KVSize) MinAlone() int { return max(1, s.Requested) }

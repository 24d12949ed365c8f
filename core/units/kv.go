package units

// KVTokenBytes returns the bytes that the keys and values of one token take in all layers: 2 ·
// layers · kvHeads · headDim · elementBytes.
func KVTokenBytes(layers, kvHeads, headDim int, elementBytes int64) int64 {
	return 2 * int64(layers) * int64(kvHeads) * int64(headDim) * elementBytes
}

// MinSequenceTokens is the minimum KV capacity per sequence, in tokens, when MaxSequences run at
// once.
const MinSequenceTokens = 256

// KVSize holds the parameters that determine the number of KV blocks of a replica.
type KVSize struct {
	BlockTokens   int
	ContextTokens int // longest sequence
	MaxSequences  int // sequences in a batch
	Requested     int // blocks requested by the operator; 0: as many as fit
}

// blocks returns the number of blocks that hold the tokens, at least 1.
func (s KVSize) blocks(tokens int) int {
	size := max(1, s.BlockTokens)
	return max(1, (tokens+size-1)/size)
}

// Max returns the largest number of blocks that the replica can use: Requested, or if that is 0,
// enough for MaxSequences of full length.
func (s KVSize) Max() int {
	if s.Requested > 0 {
		return s.Requested
	}
	return s.blocks(s.ContextTokens) * max(1, s.MaxSequences)
}

// Min returns the number of blocks that the replica needs on a device that it shares: Requested, or
// if that is 0, MinSequenceTokens for each of MaxSequences, but enough for at least one sequence of
// full length.
func (s KVSize) Min() int {
	if s.Requested > 0 {
		return s.Requested
	}
	return min(s.Max(), max(s.blocks(s.ContextTokens), s.blocks(MinSequenceTokens*max(1, s.MaxSequences))))
}

// MinAlone returns the number of blocks that the replica needs as the only one on its device: the
// requested number, or 1. The context is then limited to the blocks that fit.
func (s KVSize) MinAlone() int { return max(1, s.Requested) }

package units

// ModelShape is the shape of a dense decoder of the Llama family: grouped-query attention, an MLP
// with gate, up and down projections, and RMS norms.
type ModelShape struct {
	Layers, Hidden, Intermediate, Vocab int
	Heads, KVHeads, HeadDim             int
	Tied                                bool // the embedding is also the output projection
}

// Parameters returns the number of weights. Per layer: q and o with hidden · heads · headDim each,
// k and v with hidden · kvHeads · headDim each, three projections of the MLP with hidden ·
// intermediate each, and two norms of hidden. In all: the layers, an embedding and, unless it is
// tied, an output projection of vocab · hidden each, and a norm. The shapes are those of
// modeling_llama.py of transformers.
func (s ModelShape) Parameters() int64 {
	hidden, headDim := int64(s.Hidden), int64(s.HeadDim)
	attention := 2 * hidden * headDim * int64(s.Heads+s.KVHeads)
	layer := attention + 3*hidden*int64(s.Intermediate) + 2*hidden
	embeddings := int64(s.Vocab) * hidden
	if !s.Tied {
		embeddings *= 2
	}
	return int64(s.Layers)*layer + embeddings + hidden
}

// WeightBytes returns the bytes of all weights at a number of bits each, rounded up. It does not
// count the scales that a quantized format stores beside them.
func (s ModelShape) WeightBytes(bits int64) int64 { return (s.Parameters()*bits + 7) / 8 }

// KVTokenBytes returns the bytes of the keys and values of one token in all layers.
func (s ModelShape) KVTokenBytes(elementBytes int64) int64 {
	return KVTokenBytes(s.Layers, s.KVHeads, s.HeadDim, elementBytes)
}

// KVBytes returns the memory left for KV blocks on a device: memory − runtime − sum of weights.
// runtime is what the driver and its context take. The result is negative if the weights do not
// fit.
func KVBytes(memory, runtime int64, weights ...int64) int64 {
	left := memory - runtime
	for _, w := range weights {
		left -= w
	}
	return left
}

// Sequences returns how many sequences of a length fit into KV memory at once: ⌊kv / (⌈tokens /
// blockTokens⌉ · blockTokens · tokenBytes)⌋, since each sequence takes whole blocks, and shares
// none.
func Sequences(kv, tokenBytes int64, tokens, blockTokens int) int {
	blocks := KVSize{BlockTokens: blockTokens}.blocks(tokens)
	return int(max(0, kv) / (int64(blocks) * int64(blockTokens) * tokenBytes))
}

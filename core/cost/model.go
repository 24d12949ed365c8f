package cost

import "troupe/core/units"

// Model is the shape of a dense decoder of the Llama family, and the sizes of its numbers.
type Model struct {
	Name           string `yaml:"name"`
	Layers         int    `yaml:"layers"`
	Hidden         int    `yaml:"hidden"`
	Intermediate   int    `yaml:"intermediate"`
	Vocab          int    `yaml:"vocab"`
	Heads          int    `yaml:"heads"`
	KVHeads        int    `yaml:"kv_heads"`
	HeadDim        int    `yaml:"head_dim"`
	Tied           bool   `yaml:"tied"` // the embedding is also the output projection
	ContextTokens  int    `yaml:"context_tokens"`
	WeightBits     int    `yaml:"weight_bits"` // of a weight on the device
	KVElementBytes int    `yaml:"kv_element_bytes"`
}

// Shape returns the shape for the arithmetic of package units.
func (m Model) Shape() units.ModelShape {
	return units.ModelShape{Layers: m.Layers, Hidden: m.Hidden, Intermediate: m.Intermediate, Vocab: m.Vocab,
		Heads: m.Heads, KVHeads: m.KVHeads, HeadDim: m.HeadDim, Tied: m.Tied}
}

// WeightBytes returns the bytes of all weights.
func (m Model) WeightBytes() int64 { return m.Shape().WeightBytes(int64(m.WeightBits)) }

// KVTokenBytes returns the bytes of the keys and values of one token.
func (m Model) KVTokenBytes() int64 { return m.Shape().KVTokenBytes(int64(m.KVElementBytes)) }

// layerWeights returns the number of weights in the layers.
func (m Model) layerWeights() float64 {
	embeddings := int64(m.Vocab) * int64(m.Hidden)
	if !m.Tied {
		embeddings *= 2
	}
	return float64(m.Shape().Parameters() - embeddings)
}

// outputWeights returns the number of weights of the output projection.
func (m Model) outputWeights() float64 { return float64(m.Vocab) * float64(m.Hidden) }

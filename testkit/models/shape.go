package models

import (
	"fmt"

	"troupe/cuda"
	"troupe/engine/llama"
)

// MinBytes is the least size of a random model.
const MinBytes = 4 << 20

// headDim and vocab are those of all random models; the tokenizer has vocab tokens.
const (
	headDim = 64
	vocab   = 1024
)

// tensor is a matrix, or a vector if columns is 0.
type tensor struct {
	name          string
	rows, columns int
}

func (t tensor) elements() int64 { return int64(t.rows) * int64(max(t.columns, 1)) }

// shapeOf returns the shape of a model whose weights have about the given number of bytes, but
// never more. The width of its layers grows with their number, as in published models.
func shapeOf(bytes int64, dtype cuda.DType) (llama.Config, error) {
	if bytes < MinBytes {
		return llama.Config{}, fmt.Errorf("a random model has at least %d bytes, not %d", MinBytes, bytes)
	}
	c := llama.Config{Vocab: vocab, HeadDim: headDim, ContextTokens: 1024, TiedEmbeddings: true}
	elements := bytes / dtype.Bytes()
	for n := 1; ; n++ {
		next := c
		next.Layers, next.Heads, next.KVHeads, next.Hidden = 4*n, 4*n, n, 4*n*headDim
		if next.Intermediate = 3 * next.Hidden; elementsOf(next) > elements && n > 1 {
			break
		}
		c = next
	}
	c.Intermediate = 0
	perColumn := int64(3 * c.Hidden * c.Layers) // of an element of the hidden layer of the MLP
	c.Intermediate = int((elements-elementsOf(c))/perColumn) / 8 * 8
	if c.Intermediate < 8 {
		return c, fmt.Errorf("no shape of a model has %d bytes", bytes)
	}
	return c, nil
}

func elementsOf(c llama.Config) (n int64) {
	for _, t := range tensorsOf(c) {
		n += t.elements()
	}
	return n
}

// tensorsOf returns the tensors of a Llama model with tied embeddings, in the order of the file.
func tensorsOf(c llama.Config) []tensor {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	all := []tensor{{"model.embed_tokens.weight", c.Vocab, c.Hidden}}
	for i := range c.Layers {
		in := fmt.Sprintf("model.layers.%d.", i)
		all = append(all,
			tensor{in + "input_layernorm.weight", c.Hidden, 0},
			tensor{in + "self_attn.q_proj.weight", q, c.Hidden},
			tensor{in + "self_attn.k_proj.weight", kv, c.Hidden},
			tensor{in + "self_attn.v_proj.weight", kv, c.Hidden},
			tensor{in + "self_attn.o_proj.weight", c.Hidden, q},
			tensor{in + "post_attention_layernorm.weight", c.Hidden, 0},
			tensor{in + "mlp.gate_proj.weight", c.Intermediate, c.Hidden},
			tensor{in + "mlp.up_proj.weight", c.Intermediate, c.Hidden},
			tensor{in + "mlp.down_proj.weight", c.Hidden, c.Intermediate},
		)
	}
	return append(all, tensor{"model.norm.weight", c.Hidden, 0})
}

// SizeOf returns the bytes of the weights that Random writes for a wanted size, or 0 if it refuses.
func SizeOf(bytes int64, dtype cuda.DType) int64 {
	c, err := shapeOf(bytes, dtype)
	if err != nil {
		return 0
	}
	return elementsOf(c) * dtype.Bytes()
}

package llama

import (
	"fmt"
	"strings"

	"troupe/cuda"
	"troupe/engine/safetensors"
)

// align is the alignment of tensors within the one allocation that holds a model.
const align = 256

// placed is a tensor that the model needs, and where it goes.
type placed struct {
	name   string
	shape  []int
	dtype  cuda.DType // on the device
	offset int64      // in the allocation
	set    func(*Weights, cuda.Ptr)
	source safetensors.Tensor
}

func (p placed) bytes() int64 { return p.source.Elements() * p.dtype.Bytes() }

// layout lists what a model of this shape needs.
func layout(c Config, matrices cuda.DType) []placed {
	var all []placed
	add := func(dtype cuda.DType, set func(*Weights, cuda.Ptr), name string, shape ...int) {
		all = append(all, placed{name: name, shape: shape, dtype: dtype, set: set})
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	add(matrices, func(w *Weights, p cuda.Ptr) { w.embed, w.head = p, p }, "model.embed_tokens.weight", c.Vocab, c.Hidden)
	for i := range c.Layers {
		per := func(set func(*layer, cuda.Ptr)) func(*Weights, cuda.Ptr) {
			return func(w *Weights, p cuda.Ptr) { set(&w.layers[i], p) }
		}
		in := fmt.Sprintf("model.layers.%d.", i)
		project := func(name string, bias bool, to func(*layer) *linear, out, from int) {
			add(matrices, per(func(l *layer, p cuda.Ptr) { to(l).weight = p }), in+name+".weight", out, from)
			if bias {
				add(cuda.F32, per(func(l *layer, p cuda.Ptr) { to(l).bias = p }), in+name+".bias", out)
			}
		}
		add(cuda.F32, per(func(l *layer, p cuda.Ptr) { l.attentionNorm = p }), in+"input_layernorm.weight", c.Hidden)
		project("self_attn.q_proj", c.QKVBias, func(l *layer) *linear { return &l.q }, q, c.Hidden)
		project("self_attn.k_proj", c.QKVBias, func(l *layer) *linear { return &l.k }, kv, c.Hidden)
		project("self_attn.v_proj", c.QKVBias, func(l *layer) *linear { return &l.v }, kv, c.Hidden)
		project("self_attn.o_proj", c.OutBias, func(l *layer) *linear { return &l.o }, c.Hidden, q)
		add(cuda.F32, per(func(l *layer, p cuda.Ptr) { l.mlpNorm = p }), in+"post_attention_layernorm.weight", c.Hidden)
		project("mlp.gate_proj", c.MLPBias, func(l *layer) *linear { return &l.gate }, c.Intermediate, c.Hidden)
		project("mlp.up_proj", c.MLPBias, func(l *layer) *linear { return &l.up }, c.Intermediate, c.Hidden)
		project("mlp.down_proj", c.MLPBias, func(l *layer) *linear { return &l.down }, c.Hidden, c.Intermediate)
	}
	add(cuda.F32, func(w *Weights, p cuda.Ptr) { w.norm = p }, "model.norm.weight", c.Hidden)
	if !c.TiedEmbeddings {
		add(matrices, func(w *Weights, p cuda.Ptr) { w.head = p }, "lm_head.weight", c.Vocab, c.Hidden)
	}
	return all
}

// match finds each tensor in the folder, checks its shape, and places it. It returns the size of the allocation.
func match(dir string, all []placed, found map[string]safetensors.Tensor) (int64, error) {
	var size int64
	for i := range all {
		p := &all[i]
		t, ok := found[p.name]
		if !ok {
			return 0, fmt.Errorf("%s: tensor %s is missing; the model is incomplete, or no %s", dir, p.name, strings.Join(architectures, ", "))
		}
		if fmt.Sprint(t.Shape) != fmt.Sprint(p.shape) {
			return 0, fmt.Errorf("%s: tensor %s has shape %v where config.json asks for %v; they are of different models", dir, p.name, t.Shape, p.shape)
		}
		p.source, p.offset = t, size
		size += (p.bytes() + align - 1) / align * align
	}
	return size, nil
}

var architectures = []string{"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"}

package llama

import (
	"fmt"
	"iter"
	"slices"

	"troupe/cuda"
	"troupe/modelfile/safetensors"
)

// align is the alignment of tensors within the allocation of a model.
const align = 256

// placedTensor is a tensor that the model needs, and its place in the allocation.
type placedTensor struct {
	name   string
	shape  []int
	dtype  cuda.DType // on the device
	offset int64      // in the allocation
	set    func(*Weights, cuda.Ptr)
	source safetensors.Tensor
}

func (p placedTensor) elements() int64 {
	n := int64(1)
	for _, d := range p.shape {
		n *= int64(d)
	}
	return n
}

func (p placedTensor) bytes() int64 { return p.elements() * p.dtype.Bytes() }

// end returns the offset of the next tensor after one at an offset.
func (p placedTensor) end(offset int64) int64 { return offset + (p.bytes()+align-1)/align*align }

// layout yields the tensors that a model of this shape needs. It creates them one by one, so that a
// caller that stops at the first missing tensor allocates nothing for tensors that only config.json
// declares.
func layout(c Config, matrices cuda.DType) iter.Seq[placedTensor] {
	return func(yield func(placedTensor) bool) { yieldTensors(c, matrices, yield) }
}

func yieldTensors(c Config, matrices cuda.DType, yield func(placedTensor) bool) {
	more := true
	add := func(dtype cuda.DType, set func(*Weights, cuda.Ptr), name string, shape ...int) {
		more = more && yield(placedTensor{name: name, shape: shape, dtype: dtype, set: set})
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	embed := func(w *Weights, p cuda.Ptr) { w.embed, w.head = p, p }
	add(matrices, embed, "model.embed_tokens.weight", c.Vocab, c.Hidden)
	for i := 0; i < c.Layers && more; i++ {
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
		if c.QKNorm {
			add(cuda.F32, per(func(l *layer, p cuda.Ptr) { l.qNorm = p }), in+"self_attn.q_norm.weight", c.HeadDim)
			add(cuda.F32, per(func(l *layer, p cuda.Ptr) { l.kNorm = p }), in+"self_attn.k_norm.weight", c.HeadDim)
		}
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
}

// maxBytes is the maximum size of a model. It is far larger than the memory of any device.
const maxBytes = 1 << 48

// placeTensors finds each tensor of the layout in the folder, checks its shape, and assigns its
// offset. It returns the tensors and the size of the allocation. A tensor in the folder that the
// model does not use is an error.
func placeTensors(dir string, c Config, matrices cuda.DType, found map[string]safetensors.Tensor) (all []placedTensor,
	size int64, err error) {
	used := make(map[string]bool, len(found))
	for p := range layout(c, matrices) {
		t, ok := found[p.name]
		if !ok {
			return nil, 0, fmt.Errorf("%s: tensor %s is missing; the model is incomplete, or not a %s", dir,
				p.name, c.Architecture)
		}
		if !slices.Equal(t.Shape, p.shape) {
			return nil, 0, fmt.Errorf(
				"%s: tensor %s has shape %v and config.json requires %v; they belong to different models", dir,
				p.name, t.Shape, p.shape)
		}
		if p.dtype != cuda.F32 && p.dtype != t.DType {
			return nil, 0, fmt.Errorf(
				"%s: tensor %s has type %s and the embeddings have %s; convert all matrices to one type", dir,
				p.name, t.DType, p.dtype)
		}
		p.source, p.offset, size = t, size, p.end(size)
		if size > maxBytes {
			return nil, 0, fmt.Errorf(
				"%s: the weights take more than %d bytes, more than any device has; download the model again", dir,
				int64(maxBytes))
		}
		all, used[p.name] = append(all, p), true
	}
	if err := checkUnused(c, found, used); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", dir, err)
	}
	return all, size, nil
}

var architectures = []string{"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}

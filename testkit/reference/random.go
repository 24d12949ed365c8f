package reference

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func itoa(i int) string { return strconv.Itoa(i) }

// Shape describes a small random model. Zero fields get defaults.
type Shape struct {
	Architecture   string
	DType          string // "F32", "F16", "BF16"
	Hidden         int
	HeadDim        int // 0 means hidden / heads
	Heads, KVHeads int
	Tied           bool
	Window         int
	Llama3Rope     bool
	Layers         int // 0 means 2
	Vocab          int // 0 means 64
	ContextTokens  int // 0 means 128
	Shards         int // number of files; 1 means one file without an index
	// Extra are tensors that the architecture does not have, by name, with their shapes. A
	// lm_head.weight of the shape of the tied embedding is a copy of it.
	Extra map[string][]int
}

// Random writes the folder of a model with seeded random weights.
func Random(t testing.TB, s Shape, seed uint64) string {
	t.Helper()
	dir := t.TempDir()
	const intermediate = 40
	layers, vocab, contextTokens := cmp.Or(s.Layers, 2), cmp.Or(s.Vocab, 64), cmp.Or(s.ContextTokens, 128)
	headDim := s.HeadDim
	switch {
	case headDim != 0:
	case s.Architecture == "Qwen3ForCausalLM":
		headDim = 128 // its default in transformers
	default:
		headDim = s.Hidden / s.Heads
	}
	config := map[string]any{
		"architectures": []string{s.Architecture}, "vocab_size": vocab, "hidden_size": s.Hidden,
		"intermediate_size": intermediate,
		"num_hidden_layers": layers, "num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads,
		"max_position_embeddings": contextTokens,
		"rms_norm_eps":            1e-6, "rope_theta": 5000.0, "tie_word_embeddings": s.Tied,
		"eos_token_id": []int{1, 2},
	}
	if s.HeadDim != 0 {
		config["head_dim"] = s.HeadDim
	}
	if s.Window != 0 {
		config["sliding_window"] = s.Window
	}
	if s.Llama3Rope {
		config["rope_scaling"] = map[string]any{
			"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
			"original_max_position_embeddings": 32,
		}
	}
	write(t, filepath.Join(dir, "config.json"), config)
	w := &writer{r: rand.New(rand.NewPCG(seed, 1)), dtype: s.DType}
	q, kv := s.Heads*headDim, s.KVHeads*headDim
	w.tensor("model.embed_tokens.weight", vocab, s.Hidden)
	for i := range layers {
		in := fmt.Sprintf("model.layers.%d.", i)
		w.tensor(in+"input_layernorm.weight", s.Hidden)
		for _, p := range []struct {
			name string
			n    int
		}{{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}} {
			w.tensor(in+"self_attn."+p.name+".weight", p.n, s.Hidden)
			if s.Architecture == "Qwen2ForCausalLM" {
				w.tensor(in+"self_attn."+p.name+".bias", p.n)
			}
		}
		if s.Architecture == "Qwen3ForCausalLM" {
			w.tensor(in+"self_attn.q_norm.weight", headDim)
			w.tensor(in+"self_attn.k_norm.weight", headDim)
		}
		w.tensor(in+"self_attn.o_proj.weight", s.Hidden, q)
		w.tensor(in+"post_attention_layernorm.weight", s.Hidden)
		w.tensor(in+"mlp.gate_proj.weight", intermediate, s.Hidden)
		w.tensor(in+"mlp.up_proj.weight", intermediate, s.Hidden)
		w.tensor(in+"mlp.down_proj.weight", s.Hidden, intermediate)
	}
	w.tensor("model.norm.weight", s.Hidden)
	if !s.Tied {
		w.tensor("lm_head.weight", vocab, s.Hidden)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Extra)) {
		w.tensor(name, s.Extra[name]...)
		if last := &w.tensors[len(w.tensors)-1]; name == "lm_head.weight" && len(last.data) == len(w.tensors[0].data) {
			last.data = w.tensors[0].data
		}
	}
	w.save(t, dir, max(1, s.Shards))
	return dir
}

func write(t testing.TB, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// writer collects random tensors.
type writer struct {
	r       *rand.Rand
	dtype   string
	tensors []tensor
}

type tensor struct {
	name  string
	shape []int
	data  []byte
}

func (w *writer) tensor(name string, shape ...int) {
	n, scale := 1, 1.0
	for _, d := range shape {
		n *= d
	}
	if len(shape) == 2 {
		scale = 1.5 / math.Sqrt(float64(shape[1]))
	}
	t := tensor{name: name, shape: shape}
	for range n {
		v := float32(w.r.NormFloat64() * scale)
		switch w.dtype {
		case "F32":
			t.data = binary.LittleEndian.AppendUint32(t.data, math.Float32bits(v))
		case "BF16":
			t.data = binary.LittleEndian.AppendUint16(t.data, uint16(math.Float32bits(v)>>16))
		case "F16":
			t.data = binary.LittleEndian.AppendUint16(t.data, f16(v))
		}
	}
	w.tensors = append(w.tensors, t)
}

// f16 rounds toward zero; values that are too small become zero.
func f16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, exp := uint16(bits>>16)&0x8000, int(bits>>23&0xff)-112
	if exp <= 0 {
		return sign
	}
	return sign | uint16(exp)<<10 | uint16(bits>>13&0x3ff)
}

// save writes the tensors to the given number of files, with an index if there are several.
func (w *writer) save(t testing.TB, dir string, shards int) {
	t.Helper()
	index := map[string]string{}
	for i := range shards {
		name := "model.safetensors"
		if shards > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		}
		header, data := map[string]any{}, []byte{}
		for j, tensor := range w.tensors {
			if j%shards == i {
				index[tensor.name] = name
				header[tensor.name] = map[string]any{
					"dtype": w.dtype, "shape": tensor.shape,
					"data_offsets": []int{len(data), len(data) + len(tensor.data)},
				}
				data = append(data, tensor.data...)
			}
		}
		text, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
		if err := os.WriteFile(filepath.Join(dir, name), append(append(file, text...), data...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if shards > 1 {
		write(t, filepath.Join(dir, "model.safetensors.index.json"), map[string]any{"weight_map": index})
	}
}

package reference

import (
	"encoding/binary"
	"io"
	"math"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/engine/llama"
	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

// Model holds a model's weights in float64.
type Model struct {
	llama.Config
	weights map[string][]float64
}

// Load reads a model folder.
func Load(t testing.TB, dir string) *Model {
	t.Helper()
	c, err := llama.ReadConfig(modelfile.Roots{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	found, err := safetensors.Folder(modelfile.Roots{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Config: c, weights: make(map[string][]float64, len(found))}
	for name, tensor := range found {
		m.weights[name] = read(t, tensor)
	}
	return m
}

func read(t testing.TB, tensor safetensors.Tensor) []float64 {
	t.Helper()
	r, err := tensor.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, tensor.Elements())
	for i := range out {
		switch tensor.DType {
		case cuda.F32:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		case cuda.F16:
			out[i] = float64(kernels.F16ToF32(binary.LittleEndian.Uint16(b[2*i:])))
		case cuda.BF16:
			out[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16))
		}
	}
	return out
}

// linear computes weight · x (+ bias) for one row.
func (m *Model) linear(name string, x []float64) []float64 {
	w := m.weights[name+".weight"]
	out := make([]float64, len(w)/len(x))
	bias := m.weights[name+".bias"]
	for i := range out {
		for j, v := range x {
			out[i] += w[i*len(x)+j] * v
		}
		if bias != nil {
			out[i] += bias[i]
		}
	}
	return out
}

// normHeads normalizes each head of a row separately, if the model has weights for that.
func (m *Model) normHeads(name string, x []float64) []float64 {
	if m.weights[name+".weight"] == nil {
		return x
	}
	out := make([]float64, 0, len(x))
	for ; len(x) > 0; x = x[m.HeadDim:] {
		out = append(out, m.norm(name, x[:m.HeadDim])...)
	}
	return out
}

func (m *Model) norm(name string, x []float64) []float64 {
	var sum float64
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+m.Eps) * m.weights[name+".weight"][i]
	}
	return out
}

// rotate applies the rotary embedding to each head of a row.
func (m *Model) rotate(x []float64, position int) {
	half := m.HeadDim / 2
	freq := m.Rope.InvFreq(m.HeadDim)
	for ; len(x) > 0; x = x[m.HeadDim:] {
		for j := range half {
			sin, cos := math.Sincos(float64(position) * float64(freq[j]))
			a, b := x[j], x[j+half]
			x[j], x[j+half] = a*cos-b*sin, b*cos+a*sin
		}
	}
}

// sequence is a sequence of tokens, with the keys and values of each layer for each of them.
type sequence struct {
	keys, values [][][]float64
}

func (m *Model) newSequence() *sequence {
	return &sequence{make([][][]float64, m.Layers), make([][][]float64, m.Layers)}
}

// Logits returns the logits after the last token.
func (m *Model) Logits(tokens []uint32) []float64 {
	return m.extend(m.newSequence(), tokens)
}

// extend appends tokens to a sequence and returns the logits after the last one.
func (m *Model) extend(s *sequence, tokens []uint32) []float64 {
	rows := make([][]float64, len(tokens))
	embed := m.weights["model.embed_tokens.weight"]
	for i, t := range tokens {
		rows[i] = append([]float64(nil), embed[int(t)*m.Hidden:(int(t)+1)*m.Hidden]...)
	}
	for layer := range m.Layers {
		m.layer(s, layer, rows)
	}
	last := m.norm("model.norm", rows[len(rows)-1])
	if m.TiedEmbeddings {
		logits := make([]float64, m.Vocab)
		for i := range logits {
			for j, v := range last {
				logits[i] += embed[i*m.Hidden+j] * v
			}
		}
		return logits
	}
	return m.linear("lm_head", last)
}

func (m *Model) layer(s *sequence, index int, rows [][]float64) {
	in := "model.layers." + itoa(index) + "."
	first := len(s.keys[index])
	queries := make([][]float64, len(rows))
	for i, x := range rows {
		h := m.norm(in+"input_layernorm", x)
		queries[i] = m.normHeads(in+"self_attn.q_norm", m.linear(in+"self_attn.q_proj", h))
		key := m.normHeads(in+"self_attn.k_norm", m.linear(in+"self_attn.k_proj", h))
		m.rotate(queries[i], first+i)
		m.rotate(key, first+i)
		s.keys[index] = append(s.keys[index], key)
		s.values[index] = append(s.values[index], m.linear(in+"self_attn.v_proj", h))
	}
	for i, x := range rows {
		attended := m.attend(queries[i], s.keys[index], s.values[index], first+i)
		add(x, m.linear(in+"self_attn.o_proj", attended))
		h := m.norm(in+"post_attention_layernorm", x)
		gate, up := m.linear(in+"mlp.gate_proj", h), m.linear(in+"mlp.up_proj", h)
		for j, g := range gate {
			gate[j] = g / (1 + math.Exp(-g)) * up[j]
		}
		add(x, m.linear(in+"mlp.down_proj", gate))
	}
}

// attend computes the attention of one row over the rows up to its own.
func (m *Model) attend(q []float64, keys, values [][]float64, position int) []float64 {
	out := make([]float64, len(q))
	first := 0
	if m.Window > 0 {
		first = max(0, position-m.Window+1)
	}
	for h := range m.Heads {
		at, kv := h*m.HeadDim, h/(m.Heads/m.KVHeads)*m.HeadDim
		weights := make([]float64, position+1)
		var sum float64
		for p := first; p <= position; p++ {
			var score float64
			for j := range m.HeadDim {
				score += q[at+j] * keys[p][kv+j]
			}
			weights[p] = math.Exp(score / math.Sqrt(float64(m.HeadDim)))
			sum += weights[p]
		}
		for p := first; p <= position; p++ {
			for j := range m.HeadDim {
				out[at+j] += weights[p] / sum * values[p][kv+j]
			}
		}
	}
	return out
}

func add(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}

// Greedy continues a prompt by greedy decoding. It returns the tokens and the smallest margin
// between the two most likely ones.
func (m *Model) Greedy(prompt []uint32, n int) (output []uint32, margin float64) {
	margin = math.Inf(1)
	s := m.newSequence()
	for next := prompt; len(output) < n; next = output[len(output)-1:] {
		logits := m.extend(s, next)
		best, second := 0, -1
		for i, v := range logits {
			switch {
			case v > logits[best]:
				best, second = i, best
			case i != best && (second < 0 || v > logits[second]):
				second = i
			}
		}
		margin = min(margin, logits[best]-logits[second])
		output = append(output, uint32(best))
	}
	return output, margin
}

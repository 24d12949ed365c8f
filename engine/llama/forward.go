package llama

import (
	"math"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/engine"
)

// input holds the addresses of a step's integers in device memory.
type input struct {
	tokens, positions, rows, slots cuda.Ptr // I32 [n]
	adapters                       cuda.Ptr // I32 [n], as in kernels.LoRA
	tables                         cuda.Ptr // I32 [sequences, width]
	last                           cuda.Ptr // I32 [samples]: the rows whose logits are needed
	counts
	size        int      // integers in total
	adapterRows []int32  // content of adapters; valid if adapterRuns is not empty
	adapterRuns []rowRun // rows with adapters
	anyAdapter  bool     // the adapters are not known yet, so they may have any matrix
	gates       gates
}

// counts are the sizes of a step.
type counts struct{ n, sequences, samples int }

func countsOf(batch []engine.Sequence) (c counts) {
	c.sequences = len(batch)
	for _, s := range batch {
		c.n += len(s.Tokens)
		if s.Sample {
			c.samples++
		}
	}
	return c
}

// input writes a step's integers to the staging memory. What the batch lacks to the counts is padding.
func (e *llamaEngine) input(batch []engine.Sequence, c counts) input {
	in := input{counts: c}
	all := integers(e.staging.Bytes())
	take := func(n int) ([]int32, cuda.Ptr) {
		part := all[in.size : in.size+n]
		at := e.at.inputs.Offset(4 * int64(in.size))
		in.size += n
		return part, at
	}
	var tokens, positions, rows, slots, tables, last []int32
	tokens, in.tokens = take(in.n)
	positions, in.positions = take(in.n)
	rows, in.rows = take(in.n)
	slots, in.slots = take(in.n)
	in.adapterRows, in.adapters = take(in.n)
	tables, in.tables = take(in.sequences * e.tableWidth)
	last, in.last = take(in.samples)
	row, samples := 0, 0
	for i, s := range batch {
		copy(tables[i*e.tableWidth:(i+1)*e.tableWidth], s.Blocks)
		for j, t := range s.Tokens {
			p := s.Position + j
			tokens[row], positions[row], rows[row] = int32(t), int32(p), int32(i)
			slots[row] = s.Blocks[p/e.arena.BlockTokens]*int32(e.arena.BlockTokens) + int32(p%e.arena.BlockTokens)
			row++
		}
		if s.Sample {
			last[samples] = int32(row - 1)
			samples++
		}
	}
	for ; row < in.n; row++ {
		tokens[row], positions[row], rows[row], slots[row], in.adapterRows[row] = 0, 0, -1, -1, -1
	}
	clear(last[samples:])
	return in
}

// launcher launches kernels on a stream until the first error.
type launcher struct {
	stream cuda.Stream
	err    error
}

func (l *launcher) launch(op cuda.Op) {
	if l.err == nil {
		l.err = l.stream.Launch(op)
	}
}

// forward computes the logits of the sampled rows and waits for them.
func (e *llamaEngine) forward(in input) error {
	if err := e.copyInput(in); err != nil {
		return err
	}
	l := &launcher{stream: e.stream}
	if e.launch(l, in); l.err != nil {
		return l.drain()
	}
	return e.copyLogits(in.samples)
}

func (e *llamaEngine) copyInput(in input) error {
	return e.stream.CopyIn(e.at.inputs, e.staging.Bytes()[:4*in.size])
}

// copyLogits waits for the logits of the first samples.
func (e *llamaEngine) copyLogits(samples int) error {
	if samples > 0 {
		if err := e.stream.CopyOut(e.logits.Bytes()[:4*samples*e.Vocab], e.at.logits); err != nil {
			return err
		}
	}
	return e.stream.Sync()
}

// launch launches the kernels of a step, from the input to the logits.
func (e *llamaEngine) launch(l *launcher, in input) {
	n, hidden := int32(in.n), int32(e.Hidden)
	l.launch(kernels.Embed{
		Out: e.at.x, Table: e.embed, Tokens: in.tokens, N: n, Dim: hidden, Vocab: int32(e.Vocab), DType: e.dtype,
	})
	for i := range e.layers {
		e.attention(l, &e.layers[i], i, in)
		e.mlp(l, &e.layers[i], i, in)
	}
	if in.samples > 0 {
		s := int32(in.samples)
		l.launch(kernels.GatherRows{Out: e.at.last, In: e.at.x, Index: in.last, N: s, Dim: hidden, InRows: n})
		e.normalise(l, e.at.last, e.at.last, e.norm, s)
		e.multiply(l, e.at.logits, e.at.last, linear{weight: e.head}, s, shape{Out: e.Vocab, In: e.Hidden}, false)
	}
}

// attention adds a layer's attention to x.
func (e *llamaEngine) attention(l *launcher, w *layer, index int, in input) {
	n := int32(in.n)
	e.normalise(l, e.at.norm, e.at.x, w.attentionNorm, n)
	e.project(l, e.at.q, e.at.norm, w.q, lora.Matrix{Layer: index, Target: lora.Q}, in, false)
	e.project(l, e.at.k, e.at.norm, w.k, lora.Matrix{Layer: index, Target: lora.K}, in, false)
	e.project(l, e.at.v, e.at.norm, w.v, lora.Matrix{Layer: index, Target: lora.V}, in, false)
	e.normaliseHeads(l, e.at.q, w.qNorm, n*int32(e.Heads))
	e.normaliseHeads(l, e.at.k, w.kNorm, n*int32(e.KVHeads))
	rope := kernels.Rope{Positions: in.positions, InvFreq: e.at.invFreq, N: n, HeadDim: int32(e.HeadDim)}
	rope.X, rope.Heads = e.at.q, int32(e.Heads)
	l.launch(rope)
	rope.X, rope.Heads = e.at.k, int32(e.KVHeads)
	l.launch(rope)
	in.gates.pass(l, index) // the next launch is the first that uses the layer's blocks
	layout := e.kvLayout(index)
	l.launch(kernels.StoreKV{K: e.at.k, V: e.at.v, Slots: in.slots, N: n, KV: layout})
	l.launch(kernels.Attention{
		Out: e.at.out, Q: e.at.q, Rows: in.rows, Positions: in.positions, Tables: in.tables,
		TableWidth: int32(e.tableWidth), N: n,
		Heads: int32(e.Heads), Window: int32(e.Window), Scale: float32(1 / math.Sqrt(float64(e.HeadDim))), KV: layout,
	})
	e.project(l, e.at.x, e.at.out, w.o, lora.Matrix{Layer: index, Target: lora.O}, in, true)
}

// mlp adds a layer's gated feed-forward network to x.
func (e *llamaEngine) mlp(l *launcher, w *layer, index int, in input) {
	n := int32(in.n)
	e.normalise(l, e.at.norm, e.at.x, w.mlpNorm, n)
	e.project(l, e.at.gate, e.at.norm, w.gate, lora.Matrix{Layer: index, Target: lora.Gate}, in, false)
	e.project(l, e.at.up, e.at.norm, w.up, lora.Matrix{Layer: index, Target: lora.Up}, in, false)
	l.launch(kernels.SiluMul{Out: e.at.gate, Gate: e.at.gate, Up: e.at.up, N: n * int32(e.Intermediate)})
	e.project(l, e.at.x, e.at.gate, w.down, lora.Matrix{Layer: index, Target: lora.Down}, in, true)
}

func (e *llamaEngine) normalise(l *launcher, out, in, weight cuda.Ptr, n int32) {
	l.launch(kernels.RMSNorm{Out: out, In: in, Weight: weight, N: n, Dim: int32(e.Hidden), Eps: float32(e.Eps)})
}

// normaliseHeads normalizes each head of a projection if the model requires it: Qwen3 does so
// before RoPE.
func (e *llamaEngine) normaliseHeads(l *launcher, x, weight cuda.Ptr, heads int32) {
	if e.QKNorm {
		l.launch(kernels.RMSNorm{Out: x, In: x, Weight: weight, N: heads, Dim: int32(e.HeadDim), Eps: float32(e.Eps)})
	}
}

// project multiplies a step's rows by a projection's weight and adds the adapters' contribution.
func (e *llamaEngine) project(l *launcher, out, rows cuda.Ptr, w linear, which lora.Matrix, in input, accumulate bool) {
	s := e.projection(which.Target)
	e.multiply(l, out, rows, w, int32(in.n), s, accumulate)
	e.adapters.add(l, out, rows, which, in, s)
}

// multiply multiplies m rows by a weight.
func (e *llamaEngine) multiply(l *launcher, out, in cuda.Ptr, w linear, m int32, s shape, accumulate bool) {
	l.launch(kernels.MatMul{
		Out: out, In: in, Weight: w.weight, Bias: w.bias, M: m, N: int32(s.Out), K: int32(s.In), DType: e.dtype,
		Accumulate: accumulate,
	})
}

// kvLayout returns the location of a layer's keys and values. A block holds all layers, and for
// each layer the keys before the values. It has all blocks that the arena can have, so that it does
// not change when the arena grows or shrinks; check refuses those that are not there.
func (e *llamaEngine) kvLayout(layer int) kernels.KVLayout {
	half := 4 * int64(e.arena.BlockTokens*e.KVHeads*e.HeadDim)
	return kernels.KVLayout{
		Arena: e.arena.Base, BlockBytes: e.arena.BlockBytes, KeyOffset: 2 * half * int64(layer),
		ValueOffset: 2*half*int64(layer) + half,
		Blocks:      int32(min(e.arena.MaxBlocks, math.MaxInt32/e.arena.BlockTokens)),
		BlockTokens: int32(e.arena.BlockTokens), KVHeads: int32(e.KVHeads), HeadDim: int32(e.HeadDim),
	}
}

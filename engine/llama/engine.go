package llama

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/engine"
)

// llamaEngine implements engine.Engine. It allocates its workspace once, for the largest step.
type llamaEngine struct {
	*Weights
	arena      engine.Arena
	limits     engine.Limits
	tableWidth int // blocks in a block table
	work       unitWork

	stream    cuda.Stream
	workspace cuda.Ptr
	staging   cuda.HostMemory // for a step's inputs
	logits    cuda.HostMemory // for a step's outputs
	at        addresses
	adapters  *adapterTables // nil if the limits allow none
	graphs    graphs
}

// addresses are the parts of the workspace. R is limits.StepTokens, S is limits.MaxSequences.
type addresses struct {
	inputs  cuda.Ptr // I32: all integers of a step; see input
	invFreq cuda.Ptr // F32 [HeadDim/2]
	x, norm cuda.Ptr // F32 [R, Hidden]
	q, out  cuda.Ptr // F32 [R, Heads*HeadDim]
	k, v    cuda.Ptr // F32 [R, KVHeads*HeadDim]
	gate    cuda.Ptr // F32 [R, Intermediate]
	up      cuda.Ptr // F32 [R, Intermediate]
	last    cuda.Ptr // F32 [S, Hidden]
	logits  cuda.Ptr // F32 [S, Vocab]
}

// rowInts is the number of integers per row in a step: token, position, sequence, KV slot and
// adapter. Each sequence adds the row that samples and its block table.
const rowInts = 5

func (c Config) rowBytes() int64 {
	floats := 2*c.Hidden + 2*c.Heads*c.HeadDim + 2*c.KVHeads*c.HeadDim + 2*c.Intermediate
	return 4 * int64(floats+rowInts)
}

// logitsBytes includes a block table with one token per block, the longest possible.
func (c Config) logitsBytes() int64 { return 4 * int64(c.Hidden+c.Vocab+1+c.ContextTokens) }

// Open implements engine.Weights.
func (w *Weights) Open(arena engine.Arena, limits engine.Limits) (_ engine.Engine, err error) {
	e := &llamaEngine{
		Weights: w, arena: arena, limits: limits, work: w.unitWork(),
		tableWidth: (w.ContextTokens + arena.BlockTokens - 1) / arena.BlockTokens,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.stream, err = w.device.NewStream("step"); err != nil {
		return nil, err
	}
	ints := rowInts*limits.StepTokens + limits.MaxSequences*(1+e.tableWidth)
	if e.staging, err = w.device.AllocHost(4 * int64(max(ints, w.HeadDim/2))); err != nil {
		return nil, err
	}
	if e.logits, err = w.device.AllocHost(4 * int64(limits.MaxSequences*w.Vocab)); err != nil {
		return nil, err
	}
	if err = e.allocate(ints); err != nil {
		return nil, err
	}
	if limits.MaxAdapters > 0 {
		if e.adapters, err = newAdapterTables(w, limits); err != nil {
			return nil, err
		}
	}
	copy(floats(e.staging.Bytes()), w.Rope.InvFreq(w.HeadDim))
	if err = e.stream.CopyIn(e.at.invFreq, e.staging.Bytes()[:4*w.HeadDim/2]); err != nil {
		return nil, err
	}
	return e, e.stream.Sync()
}

// allocate allocates the workspace and divides it.
func (e *llamaEngine) allocate(ints int) error {
	rows, seqs := e.limits.StepTokens, e.limits.MaxSequences
	parts := []struct {
		at   *cuda.Ptr
		n    int // elements of 4 bytes
		base int64
	}{
		{at: &e.at.inputs, n: ints}, {at: &e.at.invFreq, n: e.HeadDim / 2},
		{at: &e.at.x, n: rows * e.Hidden}, {at: &e.at.norm, n: rows * e.Hidden},
		{at: &e.at.q, n: rows * e.Heads * e.HeadDim}, {at: &e.at.out, n: rows * e.Heads * e.HeadDim},
		{at: &e.at.k, n: rows * e.KVHeads * e.HeadDim}, {at: &e.at.v, n: rows * e.KVHeads * e.HeadDim},
		{at: &e.at.gate, n: rows * e.Intermediate}, {at: &e.at.up, n: rows * e.Intermediate},
		{at: &e.at.last, n: seqs * e.Hidden}, {at: &e.at.logits, n: seqs * e.Vocab},
	}
	var size int64
	for i := range parts {
		parts[i].base = size
		size += (4*int64(parts[i].n) + align - 1) / align * align
	}
	base, err := e.device.Alloc(size)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	e.workspace = base
	for _, p := range parts {
		*p.at = base.Offset(p.base)
	}
	return nil
}

// Close implements engine.Engine.
func (e *llamaEngine) Close() error {
	errs := []error{e.graphs.close()}
	if e.stream != nil {
		errs = append(errs, e.stream.Close())
	}
	if e.workspace != 0 {
		errs = append(errs, e.device.Free(e.workspace))
	}
	if e.adapters != nil {
		errs = append(errs, e.adapters.close())
	}
	for _, m := range []cuda.HostMemory{e.staging, e.logits} {
		if m != nil {
			errs = append(errs, m.Free())
		}
	}
	return errors.Join(errs...)
}

// Step implements engine.Engine.
func (e *llamaEngine) Step(ctx context.Context, batch []engine.Sequence) ([]sample.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.check(batch); err != nil {
		return nil, err
	}
	c := countsOf(batch)
	if err := e.compute(ctx, batch, c); err != nil {
		return nil, err
	}
	tokens := make([]sample.Token, 0, c.samples)
	logits := floats(e.logits.Bytes())
	for _, s := range batch {
		if s.Sample {
			row := logits[len(tokens)*e.Vocab : (len(tokens)+1)*e.Vocab]
			tokens = append(tokens, sample.Choose(row, s.Sampling, s.Prompt, s.Output, s.Position+len(s.Tokens)))
		}
	}
	return tokens, nil
}

// compute fills the logits of a step, by a graph if there is one for the batch.
func (e *llamaEngine) compute(ctx context.Context, batch []engine.Sequence, c counts) error {
	graph, padded := e.graphs.find(batch)
	if graph != nil {
		in := e.input(batch, counts{padded, padded, padded})
		if err := e.selectAdapters(batch, &in); err != nil {
			return err
		}
		return e.replay(graph, in, c.samples)
	}
	in := e.input(batch, c)
	in.gates = newGates(ctx, batch)
	if err := e.selectAdapters(batch, &in); err != nil {
		return err
	}
	return e.forward(in)
}

// check refuses a batch with tokens, positions or blocks outside the model's bounds or the arena.
func (e *llamaEngine) check(batch []engine.Sequence) error {
	rows := 0
	if len(batch) > e.limits.MaxSequences {
		return fmt.Errorf("llama: %d sequences in a step, at most %d", len(batch), e.limits.MaxSequences)
	}
	for i, s := range batch {
		end := s.Position + len(s.Tokens)
		rows += len(s.Tokens)
		switch {
		case len(s.Tokens) == 0 || s.Position < 0 || end > e.ContextTokens:
			return fmt.Errorf(
				"llama: sequence %d has positions [%d, %d), outside a context of %d",
				i, s.Position, end, e.ContextTokens,
			)
		case len(s.Blocks)*e.arena.BlockTokens < end || len(s.Blocks) > e.tableWidth:
			return fmt.Errorf("llama: sequence %d has %d blocks for %d tokens", i, len(s.Blocks), end)
		case rows > e.limits.StepTokens:
			return fmt.Errorf("llama: more than %d tokens in a step", e.limits.StepTokens)
		}
		for _, b := range s.Blocks {
			if b < 0 || int(b) >= e.arena.Blocks() {
				return fmt.Errorf("llama: sequence %d has block %d, outside %d blocks", i, b, e.arena.Blocks())
			}
		}
		for _, t := range s.Tokens {
			if int(t) >= e.Vocab {
				return fmt.Errorf("llama: sequence %d has token %d, outside a vocabulary of %d", i, t, e.Vocab)
			}
		}
	}
	return nil
}

func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func integers(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

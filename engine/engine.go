package engine

import (
	"context"

	"troupe/core/hbm"
	"troupe/core/sample"
	"troupe/cuda"
)

// Sequence is one sequence's share of a step.
type Sequence struct {
	Tokens   []uint32 // to compute now, at least one
	Position int      // of Tokens[0] in the sequence, from 0
	// Blocks is the block table: Blocks[i] holds positions [i*BlockTokens, (i+1)*BlockTokens).
	// It covers Position+len(Tokens).
	Blocks []int32
	// Sample asks for the next token after the last of Tokens. It is false for all but the
	// last chunk of a prefill.
	Sample   bool
	Sampling sample.Params
	// Adapter is applied to all of Tokens; nil: the base model alone. Sequences of one adapter are best side by side.
	Adapter *Adapter
	// Gate holds the step up until what Blocks hold before Position is there; nil: it is.
	Gate Gate
	// Prompt and Output are the tokens so far, given only where Sampling needs them (penalties).
	Prompt, Output []uint32
}

// Engine runs one replica's steps. It keeps nothing between steps but weights and KV memory, so a step that
// failed or was lost may be run again. What it computes for a sequence does not depend on the others in the batch.
//
// An Engine is used by one goroutine at a time.
type Engine interface {
	// Step computes a batch and returns one token for each sequence with Sample set, in order. Of a gate that does not open the error is a
	// *Void. When it returns, nothing of it runs any more.
	Step(ctx context.Context, batch []Sequence) ([]sample.Token, error)
	// Close frees what the engine itself allocated: not the weights, not the KV arena.
	Close() error
}

// Limits bound an engine's steps; they size its workspace.
type Limits struct {
	StepTokens   int // tokens in a step
	MaxSequences int // sequences in a step
	MaxAdapters  int // different adapters in a step; 0: none
	MaxRank      int // of an adapter, at most 256
}

// ModelInfo describe a model as it would be on a device.
type ModelInfo struct {
	Architecture  string // "LlamaForCausalLM"
	Parameters    int64
	Vocab         int
	ContextTokens int      // longest sequence, prompt and output together
	EOS           []uint32 // token ids that end a sequence
	WeightBytes   int64    // device memory of the weights
	KVTokenBytes  int64    // device memory of one token's keys and values
	KVLayout      string   // what those bytes mean: shape and type
	KVLayers      int      // a block holds so many layers, one after the other
	RowBytes      int64    // workspace of each token in a step
	LogitsBytes   int64    // workspace of each sequence in a step
	AdapterBytes  int64    // workspace of each adapter in a step, beside its pages
	StreamBytes   int64    // workspace of the device itself, for the engine's stream
	RankBytes     int64    // device memory of a rank of the largest adapter: one of all projections
}

// WorkspaceBytes is the device memory that an engine itself takes.
func (f ModelInfo) WorkspaceBytes(l Limits) int64 {
	bytes := f.StreamBytes + int64(l.StepTokens)*f.RowBytes + int64(l.MaxSequences)*f.LogitsBytes
	if l.MaxAdapters > 0 {
		perAdapter := f.AdapterBytes + 8*int64(f.AdapterPages(l.MaxRank))
		bytes += int64(l.StepTokens)*4*int64(l.MaxRank) + int64(l.MaxAdapters)*perAdapter
	}
	return bytes
}

// AdapterPages is how many pages the largest adapter of a rank takes.
func (f ModelInfo) AdapterPages(rank int) int {
	return int((f.RankBytes*int64(rank)+hbm.PageBytes-1)/hbm.PageBytes) + 1 // matrices are aligned
}

// Loader is a kind of model: what the Holder loads with.
type Loader interface {
	// Inspect reads no more than headers, and checks all that they tell.
	Inspect(path string, device cuda.Info) (ModelInfo, error)
	// Load puts the weights into device memory. A load that fails leaves nothing there.
	Load(ctx context.Context, device cuda.Device, path string) (Weights, error)
}

// DigestCache is a Loader that keeps the digests of files that it has read.
type DigestCache interface {
	// CachedDigests returns the digests of a model's folder; none where one of its files was not read yet, or, and
	// that is reported, where one was changed since it was read.
	CachedDigests(path string) (d Digests, changed bool)
}

// Digests name the content of a model's files, in hexadecimal digits; see engine/digest.
type Digests struct {
	Weights  string
	Revision string // of the weights, and of the files beside them that decide what the model answers
}

// Weights are a model in device memory.
type Weights interface {
	Info() ModelInfo
	Digests() Digests
	// Open returns an engine over the weights and a KV arena.
	Open(arena Arena, limits Limits) (Engine, error)
	Free() error
}

// Arena is the memory of a replica's KV blocks.
type Arena struct {
	Base        cuda.Ptr
	Blocks      func() int // how many there are now: it changes between steps. Safe for concurrent use
	BlockTokens int
	BlockBytes  int64
}

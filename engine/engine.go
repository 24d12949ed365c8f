package engine

import (
	"context"

	"troupe/core/hbm"
	"troupe/core/sample"
	"troupe/cuda"
)

// Sequence is the part of a step that belongs to one sequence.
type Sequence struct {
	Tokens   []uint32 // to compute in this step; at least one
	Position int      // position of Tokens[0] in the sequence, from 0
	// Blocks is the block table: Blocks[i] holds positions [i*BlockTokens, (i+1)*BlockTokens). It
	// covers at least Position+len(Tokens) positions.
	Blocks []int32
	// Sample requests the next token after the last of Tokens. In a prefill only the last chunk
	// sets it.
	Sample   bool
	Sampling sample.Params
	// Adapter applies to all of Tokens; nil selects the base model. Sequences with the same adapter
	// should be adjacent.
	Adapter *Adapter
	// Gate delays the step until Blocks hold the positions before Position. Nil means that they do.
	Gate Gate
	// Prompt and Output are the tokens so far. They are set only if Sampling needs them
	// (penalties).
	Prompt, Output []uint32
}

// Engine runs the steps of one replica. Between steps it keeps only weights and KV memory, so a
// step that failed or was lost may be repeated. The result for a sequence does not depend on the
// others in the batch.
//
// An Engine is not safe for concurrent use.
type Engine interface {
	// Step computes a batch and returns one token for each sequence with Sample set, in order. If a
	// gate fails, the error is a *StepAborted. No part of the step runs after Step returns.
	Step(ctx context.Context, batch []Sequence) ([]sample.Token, error)
	// Close frees what the engine allocated, but not the weights and the KV arena.
	Close() error
}

// Limits bounds an engine's steps and sizes its workspace.
type Limits struct {
	StepTokens   int // per step
	MaxSequences int // per step
	MaxAdapters  int // different adapters per step; 0: none
	MaxRank      int // rank of an adapter, at most 256
}

// ModelInfo describes a model as it would be on a device.
type ModelInfo struct {
	Vocab         int
	ContextTokens int      // longest sequence, prompt and output together
	EOS           []uint32 // token IDs that end a sequence
	WeightBytes   int64    // device memory of the weights
	WeightLayout  string   // type and order of these bytes
	KVTokenBytes  int64    // device memory of the keys and values of one token
	KVLayout      string   // shape and type of these bytes
	KVLayers      int      // layers in a block, one after the other
	RowBytes      int64    // workspace per token in a step
	LogitsBytes   int64    // workspace per sequence in a step
	AdapterBytes  int64    // workspace per adapter in a step, without its pages
	StreamBytes   int64    // workspace that the device needs for the engine's stream
	RankBytes     int64    // device memory of an adapter for all projections, per rank
	GraphOps      int      // operations in the graph of a decode step
	LoRAGraphOps  int      // in one for batches with adapters
	GraphOpBytes  int64    // device memory of an operation in a graph, at most; 0: none
}

// WorkspaceBytes returns the device memory that an engine allocates.
func (m ModelInfo) WorkspaceBytes(l Limits) int64 {
	bytes := m.StreamBytes + int64(l.StepTokens)*m.RowBytes + int64(l.MaxSequences)*m.LogitsBytes
	if l.MaxAdapters > 0 {
		perAdapter := m.AdapterBytes + 8*int64(m.AdapterPages(l.MaxRank))
		bytes += int64(l.StepTokens)*4*int64(l.MaxRank) + int64(l.MaxAdapters)*perAdapter
	}
	return bytes
}

// GraphMemory returns the device memory that an engine's graphs take, at most. A driver allocates it.
func (m ModelInfo) GraphMemory(l Limits) int64 {
	ops := m.GraphOps
	if l.MaxAdapters > 0 {
		ops += m.LoRAGraphOps
	}
	return int64(len(l.GraphRows())*ops) * m.GraphOpBytes
}

// AdapterPages returns the number of pages of the largest adapter with the given rank.
func (m ModelInfo) AdapterPages(rank int) int {
	return int((m.RankBytes*int64(rank)+hbm.PageBytes-1)/hbm.PageBytes) + 1 // one page for the alignment of matrices
}

// Loader loads models of one kind into a device's memory.
type Loader interface {
	// Inspect reads only headers and checks them.
	Inspect(path string, device cuda.Info) (ModelInfo, error)
	// Load loads the weights into device memory. If it fails, it frees all of it.
	Load(ctx context.Context, device cuda.Device, path string) (Weights, error)
}

// DigestCache is a Loader that caches the digests of the files that it has read.
type DigestCache interface {
	// CachedDigests returns the digests of a model's folder. They are empty if a file was not read
	// yet. If a file changed since it was read, they are empty and changed is true.
	CachedDigests(path string) (d Digests, changed bool)
}

// Versioned is a Loader whose engines give other tokens for the same weights if its version changes.
type Versioned interface {
	// Version describes the engine and its kernels.
	Version() string
}

// Digests identify the content of a model's files, in hexadecimal; see modelfile/digest.
type Digests struct {
	Weights  string
	Revision string // of the weights and of the other files that determine the model's output
}

// Weights is a model in device memory.
type Weights interface {
	Info() ModelInfo
	Digests() Digests
	// Open returns an engine that uses the weights and a KV arena.
	Open(arena Arena, limits Limits) (Engine, error)
	Free() error
}

// Arena is the memory of a replica's KV blocks.
type Arena struct {
	Base        cuda.Ptr
	Blocks      func() int // current number, which changes between steps; safe for concurrent use
	MaxBlocks   int        // that there may ever be at these addresses
	BlockTokens int
	BlockBytes  int64
}

package kernels

import "troupe/cuda"

// Shapes are written [rows, columns], row-major, densely packed. Activations are
// F32; weights have the type in DType. N, M, K and all counts are elements.

// Embed: Out[i] = Table[Tokens[i]].
type Embed struct {
	Out    cuda.Ptr // F32 [N, Dim]
	Table  cuda.Ptr // DType [Vocab, Dim]
	Tokens cuda.Ptr // I32 [N]; each in [0, Vocab), else a fault
	N      int32
	Dim    int32
	Vocab  int32
	DType  cuda.DType
}

// RMSNorm: Out[i] = In[i] / sqrt(mean(In[i]²) + Eps) ⊙ Weight. Out may be In.
// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
type RMSNorm struct {
	Out, In cuda.Ptr // F32 [N, Dim]
	Weight  cuda.Ptr // F32 [Dim]
	N       int32
	Dim     int32
	Eps     float32
}

// MatMul: Out = In · Weightᵀ (+ Bias) (+ Out when Accumulate).
type MatMul struct {
	Out        cuda.Ptr // F32 [M, N]
	In         cuda.Ptr // F32 [M, K]
	Weight     cuda.Ptr // DType [N, K]
	Bias       cuda.Ptr // F32 [N], or 0 for none
	M, N, K    int32
	DType      cuda.DType
	Accumulate bool
}

// TileRows is the number of rows of a library's product, whatever number was requested.
const TileRows = 128

// SplitRows writes M rows in the form in which a library multiplies them by weights of DType. For
// 16 bits that is In[i] = (hi + lo) · Scales[i], where row i of Out is hi and row i + TileRows/2 is
// lo. The error is within 2⁻¹⁷ of each element for BF16. For F16, which has a smaller range, it is
// within 2⁻¹⁷ of the row's largest element. For F32, Out is In itself. The other rows are 0.
type SplitRows struct {
	Out    cuda.Ptr // DType [TileRows, K]
	In     cuda.Ptr // F32 [M, K]; M is at most Tile(DType)
	Scales cuda.Ptr // F32 [M], powers of two; not written for F32
	M, K   int32
	DType  cuda.DType
}

// JoinRows completes a product of a library: Out = In, or for 16 bits the sum of both halves of In
// ⊙ Scales (+ Bias) (+ Out when Accumulate). Rows of Out start Stride elements apart.
type JoinRows struct {
	Out          cuda.Ptr // F32 [M, N] at a stride
	In           cuda.Ptr // F32 [TileRows, N]
	Scales       cuda.Ptr // F32 [M]; not read for F32
	Bias         cuda.Ptr // F32 [N], or 0 for none
	M, N, Stride int32
	DType        cuda.DType
	Accumulate   bool
}

// Rope rotates, in place, each head of each row by its position: the pair
// (x[j], x[j+HeadDim/2]) turns by Positions[i] · InvFreq[j] (the Hugging Face layout).
// Su et al., "RoFormer", 2021.
type Rope struct {
	X         cuda.Ptr // F32 [N, Heads*HeadDim]
	Positions cuda.Ptr // I32 [N]
	InvFreq   cuda.Ptr // F32 [HeadDim/2], any scaling already applied
	N         int32
	Heads     int32
	HeadDim   int32
}

// KVLayout locates a layer's keys and values in the KV arena. The arena is [blocks, BlockBytes]. A
// block holds all layers, and for each the keys and then the values, each F32 [BlockTokens,
// KVHeads*HeadDim]. Keys start KeyOffset bytes into the block, values ValueOffset.
type KVLayout struct {
	Arena       cuda.Ptr
	BlockBytes  int64
	KeyOffset   int64
	ValueOffset int64
	Blocks      int32 // table entries are below; one without memory is a fault
	BlockTokens int32
	KVHeads     int32
	HeadDim     int32
}

// StoreKV writes one layer's new keys and values into their blocks. Row i goes to
// slot Slots[i] = block*BlockTokens + offset. A row with slot -1 is padding and is not stored.
type StoreKV struct {
	K, V  cuda.Ptr // F32 [N, KVHeads*HeadDim]
	Slots cuda.Ptr // I32 [N]
	N     int32
	KV    KVLayout
}

// Attention is causal attention over paged keys and values, for prefill and decode. Row i of Q
// belongs to sequence Rows[i], at Positions[i] = p, and sees positions [max(0, p-Window+1), p] of
// that sequence, or all of [0, p] if Window is 0. The block of a position is
// Tables[Rows[i]*TableWidth + position/BlockTokens]. If Rows[i] is -1, the row is padding and its
// output is 0. Kwon et al., "Efficient Memory Management for Large Language Model Serving with
// PagedAttention", 2023.
type Attention struct {
	Out        cuda.Ptr // F32 [N, Heads*HeadDim]
	Q          cuda.Ptr // F32 [N, Heads*HeadDim]
	Rows       cuda.Ptr // I32 [N]
	Positions  cuda.Ptr // I32 [N]
	Tables     cuda.Ptr // I32 [sequences, TableWidth]
	TableWidth int32
	N          int32
	Heads      int32 // a multiple of KV.KVHeads (grouped-query attention)
	Window     int32
	Scale      float32 // usually 1/sqrt(HeadDim)
	KV         KVLayout
}

// SiluMul: Out = silu(Gate) ⊙ Up, elementwise. Out may be Gate.
type SiluMul struct {
	Out, Gate, Up cuda.Ptr // F32 [N]
	N             int32
}

// GatherRows: Out[i] = In[Index[i]].
type GatherRows struct {
	Out    cuda.Ptr // F32 [N, Dim]
	In     cuda.Ptr // F32 [InRows, Dim]
	Index  cuda.Ptr // I32 [N]
	N      int32
	Dim    int32
	InRows int32
}

// GatherBlocks copies blocks of an arena, in any order, contiguously to Out. BlockBytes is a
// multiple of 4, and arrays are aligned to 4 bytes; copies are fastest if both are multiples of 16.
type GatherBlocks struct {
	Out         cuda.Ptr // [N, BlockBytes]
	Arena       cuda.Ptr // [ArenaBlocks, BlockBytes]
	Blocks      cuda.Ptr // I32 [N]; each in [0, ArenaBlocks), else a fault
	BlockBytes  int64
	N           int32
	ArenaBlocks int32
}

// ScatterBlocks is the reverse of GatherBlocks. Its blocks must differ.
type ScatterBlocks struct {
	Arena       cuda.Ptr // [ArenaBlocks, BlockBytes]
	In          cuda.Ptr // [N, BlockBytes]
	Blocks      cuda.Ptr // I32 [N]; each in [0, ArenaBlocks), else a fault
	BlockBytes  int64
	N           int32
	ArenaBlocks int32
}

// TopK finds the K largest elements of each row, in order; of equal ones, that with the lowest
// index first. NaN is ignored: if a row has fewer elements, Indices are -1 and Values -Inf. With K
// 1 it is greedy decoding.
type TopK struct {
	Values  cuda.Ptr // F32 [N, K]
	Indices cuda.Ptr // I32 [N, K]
	In      cuda.Ptr // F32 [N, Dim]
	N       int32
	Dim     int32
	K       int32
}

// PageBytes is the size of the adapters' pages.
const PageBytes = 2 << 20

// LoRA maps rows to adapters and locates the adapters' matrices for one projection of one layer.
//
// An adapter is in pages that may be anywhere. In their order they form its address space of at
// most PageWidth*PageBytes. A matrix is packed in it from Offsets on and may cross pages. Adapters
// differ in rank and in the projections that they have matrices for. Without a matrix for this
// projection, an adapter leaves its rows unchanged.
type LoRA struct {
	Rows      cuda.Ptr // I32 [N]: the row's adapter, or -1 for none; else outside [0, Adapters) is a fault
	Pages     cuda.Ptr // cuda.Ptr [Adapters, PageWidth]: aligned to 256 bytes; those not used may be 0
	Offsets   cuda.Ptr // I64 [Adapters]: bytes, a multiple of 16; negative if the adapter has no such matrix
	Ranks     cuda.Ptr // I32 [Adapters]: in [1, MaxRank]
	Scales    cuda.Ptr // F32 [Adapters]: alpha/rank, or alpha/√rank
	Adapters  int32
	PageWidth int32
	MaxRank   int32 // at most 256
	DType     cuda.DType
}

// LoRAShrink: Mid[i] = In[i] · Aᵀ · scale, with the A [rank, K] and the scale of row i's adapter.
// Elements of Mid beyond the rank, and rows without an adapter, are unchanged. Hu et al., "LoRA",
// 2021; Chen et al., "Punica", 2023.
type LoRAShrink struct {
	Mid  cuda.Ptr // F32 [N, MaxRank]
	In   cuda.Ptr // F32 [N, K]
	N, K int32
	A    LoRA
}

// LoRAExpand: Out[i] += Mid[i] · Bᵀ, with the B [Dim, rank] of row i's adapter. An adapter with B
// has A.
type LoRAExpand struct {
	Out    cuda.Ptr // F32 [N, Dim]
	Mid    cuda.Ptr // F32 [N, MaxRank], from LoRAShrink
	N, Dim int32
	B      LoRA
}

func (Embed) Kernel() string         { return "troupe_embed" }
func (RMSNorm) Kernel() string       { return "troupe_rmsnorm" }
func (MatMul) Kernel() string        { return "troupe_matmul" }
func (SplitRows) Kernel() string     { return "troupe_split_rows" }
func (JoinRows) Kernel() string      { return "troupe_join_rows" }
func (Rope) Kernel() string          { return "troupe_rope" }
func (StoreKV) Kernel() string       { return "troupe_store_kv" }
func (Attention) Kernel() string     { return "troupe_attention" }
func (SiluMul) Kernel() string       { return "troupe_silu_mul" }
func (GatherRows) Kernel() string    { return "troupe_gather_rows" }
func (GatherBlocks) Kernel() string  { return "troupe_gather_blocks" }
func (ScatterBlocks) Kernel() string { return "troupe_scatter_blocks" }
func (TopK) Kernel() string          { return "troupe_top_k" }
func (LoRAShrink) Kernel() string    { return "troupe_lora_shrink" }
func (LoRAExpand) Kernel() string    { return "troupe_lora_expand" }

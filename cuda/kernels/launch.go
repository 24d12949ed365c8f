package kernels

import (
	"fmt"

	"troupe/cuda"
)

// Geometry is the launch geometry of a kernel on a GPU: the grid in blocks, a block in threads, and
// the dynamic shared memory of a block. An empty grid means that there is nothing to launch.
type Geometry struct{ GridX, GridY, GridZ, BlockX, BlockY, BlockZ, SharedBytes uint32 }

// Launch returns op's entry point in Code and its geometry. ok is false if Code does not have the
// op, or not for these sizes. The entry's only parameter is op, by value.
//
// The entry and the number of blocks may depend on the batch. A row's result does not; the sources
// describe how each kernel ensures that.
func Launch(op cuda.Op) (entry string, g Geometry, ok bool) {
	entry, ok = op.Kernel(), true
	switch op := op.(type) {
	case Embed:
		g = grid(op.N, 1, 256)
	case RMSNorm:
		g = grid(op.N, 1, 256)
	case MatMul:
		return op.launch()
	case SplitRows:
		g = grid(TileRows, 1, 256)
	case JoinRows:
		g = grid(op.M, parts(op.N, 256), 256)
	case Rope:
		g = grid(op.N, parts(op.Heads, 4), 64)
	case StoreKV:
		g = grid(op.N, 1, 256)
	case Attention:
		return op.launch()
	case SiluMul:
		g = grid(parts(op.N, 256), 1, 256)
	case GatherRows:
		g = grid(op.N, 1, 256)
	case GatherBlocks:
		g = grid(op.N, shares(op.BlockBytes), 256)
	case ScatterBlocks:
		g = grid(op.N, shares(op.BlockBytes), 256)
	case TopK:
		g = grid(op.N, 1, 1024)
	case LoRAShrink:
		g, ok = grid(op.N, parts(op.A.MaxRank, 4), 128), op.A.MaxRank <= maxRank
	case LoRAExpand:
		g, ok = grid(op.N, parts(op.Dim, 128), 128), op.B.MaxRank <= maxRank
	default:
		ok = false
	}
	return entry, g, ok
}

// grid returns x by y blocks of threads, or none if there are no elements.
func grid(x, y int32, threads uint32) Geometry {
	if x <= 0 || y <= 0 {
		x, y = 0, 0
	}
	return Geometry{uint32(x), uint32(y), 1, threads, 1, 1, 0}
}

// parts returns the number of blocks of the given size that cover n.
func parts(n, size int32) int32 { return int32((int64(n) + int64(size) - 1) / int64(size)) }

// shares returns the number of thread blocks that copy a block of bytes: each copies at least 16
// KiB.
func shares(bytes int64) int32 { return int32(min(64, (bytes+16<<10-1)/(16<<10))) }

// launch picks the smallest tile that fits all rows, or the largest.
func (op MatMul) launch() (entry string, g Geometry, ok bool) {
	if op.DType == cuda.F32 {
		return "troupe_matmul_f32", grid(parts(op.N, 16), parts(op.M, 4), 128), true
	}
	name, ok := map[cuda.DType]string{cuda.F16: "troupe_matmul_f16", cuda.BF16: "troupe_matmul_bf16"}[op.DType]
	if op.K%8 != 0 || op.In%16 != 0 || op.Weight%16 != 0 {
		return name + "_any", grid(parts(op.N, 16), parts(op.M, 8), 128), ok
	}
	columns, rows := int32(64), int32(64)
	switch {
	case op.M <= 8:
		columns, rows = 16, 8
	case op.M <= 16:
		columns, rows = 32, 16
	case op.M <= 32:
		columns, rows = 32, 32
	}
	return fmt.Sprintf("%s_%d", name, rows), grid(parts(op.N, columns), parts(op.M, rows), 128), ok
}

// launch gives each block the heads that share a KV head, at most four.
func (op Attention) launch() (entry string, g Geometry, ok bool) {
	dim, heads, group := int32(64), int32(4), op.Heads/max(1, op.KV.KVHeads)
	switch {
	case op.KV.HeadDim > 256:
		return "", g, false
	case op.KV.HeadDim > 128:
		dim, heads = 256, 1
	case op.KV.HeadDim > 64:
		dim = 128
	}
	if group == 1 {
		heads = 1
	}
	return fmt.Sprintf("troupe_attention_%d_%d", dim, heads), grid(op.N, op.KV.KVHeads*parts(group, heads), 256), true
}

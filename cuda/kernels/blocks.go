package kernels

import (
	"math"
	"slices"

	"troupe/cuda"
)

func (m machine) gatherBlocks(op GatherBlocks) {
	m.blocks(op.Blocks, op.N, op.ArenaBlocks, op.BlockBytes, func(i, block int64) {
		copy(m.bytes(op.Out, i, op.BlockBytes), m.bytes(op.Arena, block, op.BlockBytes))
	})
}

func (m machine) scatterBlocks(op ScatterBlocks) {
	m.blocks(op.Blocks, op.N, op.ArenaBlocks, op.BlockBytes, func(i, block int64) {
		copy(m.bytes(op.Arena, block, op.BlockBytes), m.bytes(op.In, i, op.BlockBytes))
	})
}

// blocks calls move for each of n blocks.
func (m machine) blocks(list cuda.Ptr, n, of int32, bytes int64, move func(i, block int64)) {
	if bytes <= 0 || bytes%4 != 0 {
		panic("the block size is not a multiple of the element size")
	}
	for i, block := range m.i32(list, int(n)) {
		move(int64(i), int64(index("block", block, of)))
	}
}

// bytes returns element i of an array of elements of the given size.
func (m machine) bytes(array cuda.Ptr, i, size int64) []byte {
	if array%4 != 0 {
		panic("misaligned blocks")
	}
	return m.mem.Bytes(array.Offset(i*size), size)
}

func (m machine) topK(op TopK) {
	n, dim, k := int(op.N), int(op.Dim), int(op.K)
	in, values, indices := m.f32(op.In, n*dim), m.f32(op.Values, n*k), m.i32(op.Indices, n*k)
	m.workers(n, int64(dim), func(lo, hi int) {
		for ; lo < hi; lo++ {
			topK(values[lo*k:][:k], indices[lo*k:][:k], in[lo*dim:][:dim])
		}
	})
}

// topK keeps the best elements in order and inserts each one that is better than the last.
func topK(values []float32, indices []int32, row []float32) {
	found, k := 0, len(values)
	for i, v := range row {
		if v != v || found == k && v <= values[k-1] {
			continue
		}
		found = min(found+1, k)
		at, _ := slices.BinarySearchFunc(values[:found-1], v, func(x, v float32) int {
			if x >= v {
				return -1
			}
			return 1
		})
		copy(values[at+1:found], values[at:])
		copy(indices[at+1:found], indices[at:])
		values[at], indices[at] = v, int32(i)
	}
	for i := found; i < k; i++ {
		values[i], indices[i] = float32(math.Inf(-1)), -1
	}
}

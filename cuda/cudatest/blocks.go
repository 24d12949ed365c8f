package cudatest

import (
	"math"
	"slices"

	"troupe/cuda/kernels"
)

// moveBlocks: gathered blocks are in the requested order, and scattered blocks overwrite only their
// own slots.
func (b *bench) moveBlocks(blockBytes int) {
	b.Helper()
	const blocks = 9
	size, chosen := blockBytes/4, []int32{0, 7, 3, 8}
	arena, fresh := b.random(blocks*size), b.random(len(chosen)*size)
	at, list, out := put(b, arena), put(b, chosen), put(b, make([]float32, len(chosen)*size))
	b.launch(kernels.GatherBlocks{
		Out: out, Arena: at, Blocks: list, BlockBytes: int64(blockBytes), N: int32(len(chosen)), ArenaBlocks: blocks,
	})
	b.launch(kernels.ScatterBlocks{
		Arena: at, In: put(b, fresh), Blocks: list, BlockBytes: int64(blockBytes), N: int32(len(chosen)),
		ArenaBlocks: blocks,
	})
	got, after := b.get(out, len(chosen)*size), slices.Clone(arena)
	for i, block := range chosen {
		b.same("gathered blocks", got[i*size:(i+1)*size], arena[int(block)*size:][:size])
		copy(after[int(block)*size:][:size], fresh[i*size:])
	}
	b.same("arena after a scatter", b.get(at, len(arena)), after)
}

// topK compares with sorting: ties, infinities, NaN, and rows with fewer numbers than requested.
func (b *bench) topK() {
	b.Helper()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const dim = 700
	rows := [][]float32{b.random(dim), make([]float32, dim), slices.Repeat([]float32{nan}, dim), b.random(dim)}
	for i := range rows[1] {
		rows[1][i] = float32(b.r.IntN(2)) * float32(b.r.IntN(2)-1) // many ties, and both zeros
	}
	rows[2][40], rows[2][600], rows[2][601] = -inf, 3, -0.5
	rows[3][0], rows[3][1], rows[3][dim-1] = nan, -inf, inf
	in := put(b, slices.Concat(rows...))
	for _, k := range []int{1, 3, 50} {
		n := len(rows) * k
		values, indices := put(b, make([]float32, n)), put(b, make([]int32, n))
		b.launch(kernels.TopK{Values: values, Indices: indices, In: in, N: int32(len(rows)), Dim: dim, K: int32(k)})
		got, at := b.get(values, n), b.get(indices, n)
		for i, row := range rows {
			for j, want := range largest(row, k) {
				v := -inf
				if want >= 0 {
					v = row[want]
				}
				if i, j := i*k+j, int32(math.Float32bits(at[i*k+j])); got[i] != v || j != want {
					b.Fatalf("the %d largest of row %d: %v at %d, want %v at %d", k, i/k, got[i], j, v, want)
				}
			}
		}
	}
}

// largest sorts all elements that are numbers.
func largest(row []float32, k int) (indices []int32) {
	for i, v := range row {
		if v == v {
			indices = append(indices, int32(i))
		}
	}
	slices.SortStableFunc(indices, func(i, j int32) int {
		switch {
		case row[i] > row[j]:
			return -1
		case row[i] < row[j]:
			return 1
		}
		return 0
	})
	return append(indices, slices.Repeat([]int32{-1}, k)...)[:k]
}

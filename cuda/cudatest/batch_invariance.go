package cudatest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// rowsAlone checks that a row's result has the same bits alone and at any position of any batch.
func rowsAlone(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	for _, dtype := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16} {
		b.productAlone(dtype, 75, 180)
		b.productAlone(dtype, 75, 264)
		b.productAlone(dtype, 6, 37)
		b.productAlone(dtype, 523, 8)
		b.productAlone(dtype, 203, 48)
		b.productAlone(dtype, 5, 528) // rows so long that 128 exceed what a processor keeps in its cache
	}
	b.loraAlone()
	b.elementsAlone()
	b.attentionAlone(heads{6, 2, 32}, 4, 0)
	b.attentionAlone(heads{2, 2, 18}, 16, 0)
	b.attentionAlone(heads{4, 1, 10}, 16, 5)
}

func (b *bench) same(what string, got, want []float32) {
	b.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			b.Fatalf("%s: element %d is %v, but alone %v", what, i, got[i], want[i])
		}
	}
}

func (b *bench) productAlone(t cuda.DType, n, k int) {
	b.Helper()
	w, _ := b.weights(t, n*k)
	row, bias := b.random(k), put(b, b.random(n))
	product := func(in []float32) []float32 {
		m := len(in) / k
		out := put(b, make([]float32, m*n))
		b.launch(
			kernels.MatMul{
				Out:    out,
				In:     put(b, in),
				Weight: w,
				Bias:   bias,
				M:      int32(m),
				N:      int32(n),
				K:      int32(k),
				DType:  t,
			},
		)
		return b.get(out, m*n)
	}
	want := product(row)
	for _, m := range []int{2, 3, 4, 7, 8, 16, 33, kernels.TileRows + 1 + b.r.IntN(60)} {
		in, places := b.random(m*k), []int{b.r.IntN(m), m - 1}
		for _, at := range places {
			copy(in[at*k:], row)
		}
		out := product(in)
		for _, at := range places {
			b.same(fmt.Sprintf("row %d of %d of a product with %v", at, m, t), out[at*n:(at+1)*n], want)
		}
	}
}

// elementsAlone checks that the results of row-wise and element-wise kernels do not depend on the
// position.
func (b *bench) elementsAlone() {
	b.Helper()
	const dim = 22
	gate, up, positions, freq := b.random(
		9*dim,
	), b.random(
		9*dim,
	), []int32{
		5,
		9,
		0,
		7,
		7,
		8,
		900,
		3,
		1,
	}, put(
		b,
		b.random(dim/2),
	)
	weight := put(b, b.random(dim))
	run := func(lo, hi int) [][]float32 {
		n, count := int32(hi-lo), (hi-lo)*dim
		x, y, z := put(b, gate[lo*dim:hi*dim]), put(b, up[lo*dim:hi*dim]), put(b, gate[lo*dim:hi*dim])
		b.launch(kernels.SiluMul{Out: x, Gate: x, Up: y, N: n * dim})
		b.launch(kernels.RMSNorm{Out: y, In: y, Weight: weight, N: n, Dim: dim, Eps: 1e-5})
		b.launch(kernels.Rope{X: z, Positions: put(b, positions[lo:hi]), InvFreq: freq, N: n, Heads: 1, HeadDim: dim})
		return [][]float32{b.get(x, count), b.get(y, count), b.get(z, count)}
	}
	all := run(0, 9)
	for i := range 9 {
		for k, alone := range run(i, i+1) {
			b.same([]string{"silu", "rmsnorm", "rope"}[k], all[k][i*dim:(i+1)*dim], alone)
		}
	}
}

func (b *bench) attentionAlone(h heads, blockTokens, window int) {
	b.Helper()
	c, rows, size := b.store(h, blockTokens), everywhere(), h.query*h.dim
	q := b.random(len(rows) * size)
	alone := make([][]float32, len(rows))
	for i, r := range rows {
		alone[i] = b.look(c, q[i*size:(i+1)*size], []row{r}, window)
	}
	for range 4 {
		var order []int // a run of rows as in a prefill, between other rows
		for i := b.r.IntN(lengths[0]); i < lengths[0]; i++ {
			order = append(order, i)
		}
		order = slices.Concat(b.r.Perm(len(rows))[:b.r.IntN(9)], order, b.r.Perm(len(rows))[:b.r.IntN(9)])
		var mixed []float32
		var at []row
		for _, i := range order {
			mixed, at = append(mixed, q[i*size:(i+1)*size]...), append(at, rows[i])
		}
		for j, out := range slices.Collect(slices.Chunk(b.look(c, mixed, at, window), size)) {
			b.same(fmt.Sprintf("attention at %+v", at[j]), out, alone[order[j]])
		}
	}
}

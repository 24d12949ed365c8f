package cudatest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

func kernelsAgainstFloat64(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	for _, k := range []int{1, 10, 16, 33, 64, 172} {
		for _, dtype := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16} {
			b.matMul(dtype, 1+b.r.IntN(9), 1+b.r.IntN(20), k)
			b.embed(dtype, 1+b.r.IntN(4), k)
		}
		b.rmsNorm(3, k)
		b.siluMul(k)
		b.gatherRows(4, k)
	}
	b.matMul(cuda.F32, 70, 300, 192)                          // large enough to be split among workers
	for _, dtype := range []cuda.DType{cuda.F16, cuda.BF16} { // tiles of each size, and a partial last chunk
		b.matMul(dtype, 12, 40, 96)
		b.matMul(dtype, 30, 40, 72)
		b.matMul(dtype, 70, 100, 264)
	}
	b.attend(heads{4, 4, 8}, 4, 0)
	b.attend(heads{6, 2, 32}, 4, 0)
	b.attend(heads{6, 2, 32}, 16, 7)
	b.attend(heads{4, 1, 10}, 16, 5)
	b.attend(heads{2, 2, 18}, 4, 3)
	b.attend(heads{8, 2, 128}, 16, 0)
	b.attend(heads{2, 2, 128}, 16, 0)
	b.attend(heads{2, 1, 160}, 16, 0)
	b.paddingRows(heads{6, 2, 32})
	b.paddingRows(heads{2, 2, 10})
	for _, h := range []heads{{3, 3, 8}, {2, 2, 10}, {1, 1, 128}} {
		b.rope(h.query, h.dim)
	}
	b.moveBlocks(16)
	b.moveBlocks(12)
	b.topK()
	for _, dtype := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16} {
		b.lora(dtype, 96, 70)
		b.lora(dtype, 33, 5)
		b.split(dtype, 5, 70)
		b.join(dtype, 5, 30, 33)
	}
}

func (b *bench) matMul(t cuda.DType, m, n, k int) {
	b.Helper()
	w, weights := b.weights(t, n*k)
	in, bias, old := b.random(m*k), b.random(n), b.random(m*n)
	products := make([]float64, m*n)
	for i := range products {
		row, column := in[i/n*k:][:k], weights[i%n*k:][:k]
		for j, x := range row {
			products[i] += float64(x) * column[j]
		}
	}
	for _, with := range []struct{ bias, accumulate bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		op := kernels.MatMul{
			Out: put(b, old), In: put(b, in), Weight: w, M: int32(m), N: int32(n), K: int32(k), DType: t,
			Accumulate: with.accumulate,
		}
		if with.bias {
			op.Bias = put(b, bias)
		}
		want := slices.Clone(products)
		for i := range want {
			if with.bias {
				want[i] += float64(bias[i%n])
			}
			if with.accumulate {
				want[i] += float64(old[i])
			}
		}
		b.launch(op)
		b.near(fmt.Sprintf("matmul of %v, %dx%dx%d, %+v", t, m, n, k, with), b.get(op.Out, m*n), want, k)
	}
}

func (b *bench) embed(t cuda.DType, n, dim int) {
	b.Helper()
	const vocab = 7
	table, values := b.weights(t, vocab*dim)
	tokens, want := make([]int32, n), make([]float64, n*dim)
	for i := range tokens {
		tokens[i] = int32(b.r.IntN(vocab))
		copy(want[i*dim:(i+1)*dim], values[int(tokens[i])*dim:])
	}
	out := put(b, make([]float32, n*dim))
	b.launch(
		kernels.Embed{
			Out:    out,
			Table:  table,
			Tokens: put(b, tokens),
			N:      int32(n),
			Dim:    int32(dim),
			Vocab:  vocab,
			DType:  t,
		},
	)
	b.near("embed of "+t.String(), b.get(out, n*dim), want, 0)
}

func (b *bench) gatherRows(n, dim int) {
	b.Helper()
	in, index := b.random(5*dim), []int32{4, 0, 4, 2}
	want := make([]float64, n*dim)
	for i := range want {
		want[i] = float64(in[int(index[i/dim])*dim+i%dim])
	}
	out := put(b, make([]float32, n*dim))
	b.launch(
		kernels.GatherRows{Out: out, In: put(b, in), Index: put(b, index), N: int32(n), Dim: int32(dim), InRows: 5},
	)
	b.near("gather", b.get(out, n*dim), want, 0)
}

func (b *bench) rmsNorm(n, dim int) {
	b.Helper()
	in, w := b.random(n*dim), b.random(dim)
	want := make([]float64, n*dim)
	for i := range n {
		var sum float64
		for _, v := range in[i*dim : (i+1)*dim] {
			sum += float64(v) * float64(v)
		}
		for j := range dim {
			want[i*dim+j] = float64(in[i*dim+j]) / math.Sqrt(sum/float64(dim)+1e-5) * float64(w[j])
		}
	}
	p := put(b, in)
	b.launch(kernels.RMSNorm{Out: p, In: p, Weight: put(b, w), N: int32(n), Dim: int32(dim), Eps: 1e-5})
	b.near("rmsnorm", b.get(p, n*dim), want, dim)
}

func (b *bench) siluMul(n int) {
	b.Helper()
	gate, up := b.random(n), b.random(n)
	gate[0] = -200 // e⁻ˣ overflows here
	want := make([]float64, n)
	for i := range want {
		want[i] = float64(gate[i]) / (1 + math.Exp(-float64(gate[i]))) * float64(up[i])
	}
	p := put(b, gate)
	b.launch(kernels.SiluMul{Out: p, Gate: p, Up: put(b, up), N: int32(n)})
	b.near("silu", b.get(p, n), want, 1)
}

func (b *bench) rope(heads, dim int) {
	b.Helper()
	const n = 3
	x, positions, freq := b.random(n*heads*dim), []int32{0, 5, 90_000}, b.random(dim/2)
	want := make([]float64, len(x))
	for i := range x {
		row, j := i/(heads*dim), i%dim
		sin, cos := math.Sincos(float64(positions[row]) * float64(freq[j%(dim/2)]))
		if j < dim/2 {
			want[i] = float64(x[i])*cos - float64(x[i+dim/2])*sin
		} else {
			want[i] = float64(x[i])*cos + float64(x[i-dim/2])*sin
		}
	}
	p := put(b, x)
	b.launch(
		kernels.Rope{
			X:         p,
			Positions: put(b, positions),
			InvFreq:   put(b, freq),
			N:         n,
			Heads:     int32(heads),
			HeadDim:   int32(dim),
		},
	)
	b.near("rope", b.get(p, len(x)), want, 1)
}

// Product checks a matrix product of the given size against a float64 reference.
func Product(t *testing.T, d cuda.Device, weights cuda.DType, m, n, k int) {
	newBench(t, d).matMul(weights, m, n, k)
}

// GraphOfKernels tests graphs of kernels.
func GraphOfKernels(t *testing.T, d cuda.Device) { kernelGraphs(t, d) }

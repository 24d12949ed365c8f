package cudatest

import (
	"math"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// split checks that the output of SplitRows represents the input. join checks that JoinRows returns
// the sum of a product.
func (b *bench) split(t cuda.DType, m, k int) {
	b.Helper()
	in, tile := b.random(m*k), int(kernels.Tile(t))
	for i := range in[:k] {
		in[i] *= 1e30 // beyond the range of F16
	}
	scales := put(b, make([]float32, tile))
	out := must[cuda.Ptr](b.T)(b.d.Alloc(int64(kernels.TileRows*k) * t.Bytes()))
	b.launch(kernels.SplitRows{Out: out, In: put(b, in), Scales: scales, M: int32(m), K: int32(k), DType: t})
	wide := put(b, make([]float32, kernels.TileRows*k)) // Embed converts to F32
	rows := make([]int32, kernels.TileRows)
	for i := range rows {
		rows[i] = int32(i)
	}
	b.launch(
		kernels.Embed{
			Out:    wide,
			Table:  out,
			Tokens: put(b, rows),
			N:      kernels.TileRows,
			Dim:    int32(k),
			Vocab:  kernels.TileRows,
			DType:  t,
		},
	)
	got, by := b.get(wide, kernels.TileRows*k), b.get(scales, tile)
	for i := range tile * k {
		var want, largest float64
		if row := i / k; row < m {
			want = float64(in[i])
			for _, x := range in[row*k:][:k] {
				largest = max(largest, math.Abs(float64(x)))
			}
		}
		sum := float64(got[i])
		if t != cuda.F32 {
			sum += float64(got[tile*k+i])
			if i/k < m {
				sum *= float64(by[i/k])
			}
		}
		if !(math.Abs(sum-want) <= 0x1p-17*math.Abs(want)+0x1p-25*largest) {
			b.Fatalf("split of %v: element %d is %v, want %v", t, i, sum, want)
		}
	}
}

func (b *bench) join(t cuda.DType, m, n, stride int) {
	b.Helper()
	in, scales, bias, old := b.random(kernels.TileRows*n), b.random(m), b.random(n), b.random(m*stride)
	want := make([]float64, m*stride)
	for i := range want {
		want[i] = float64(old[i])
		row, j := i/stride, i%stride
		if j >= n {
			continue
		}
		v := float64(in[row*n+j])
		if t != cuda.F32 {
			v = (v + float64(in[(kernels.TileRows/2+row)*n+j])) * float64(scales[row])
		}
		want[i] += v + float64(bias[j])
	}
	out := put(b, old)
	b.launch(kernels.JoinRows{
		Out: out, In: put(b, in), Scales: put(b, scales), Bias: put(b, bias), M: int32(m), N: int32(n),
		Stride: int32(stride), DType: t, Accumulate: true,
	})
	b.near("join of "+t.String(), b.get(out, m*stride), want, 1)
}

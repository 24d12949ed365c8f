package kernels

import (
	"fmt"
	"testing"
	"unsafe"

	"troupe/cuda"
)

// heap provides Go memory by address, for benchmarks of kernels without a device.
type heap struct{ kept []any }

func (*heap) Bytes(p cuda.Ptr, n int64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

func (h *heap) Prefix(p cuda.Ptr, n int64) []byte { return h.Bytes(p, n) }

// address keeps s alive as long as h.
func address[E any](h *heap, s []E) cuda.Ptr {
	h.kept = append(h.kept, s)
	return cuda.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(s))))
}

// alone does all work in the caller, on one core.
func alone(n int, _ int64, work func(lo, hi int)) { work(0, n) }

var shapes = []struct{ n, k int }{{1024, 192}, {192, 512}, {512, 192}, {2048, 2048}}

func BenchmarkMatMul(b *testing.B) {
	for _, s := range shapes {
		for _, t := range []cuda.DType{cuda.F32, cuda.BF16, cuda.F16} {
			for _, m := range []int{1, 8, 16, 32, 128} {
				b.Run(fmt.Sprintf("N=%d,K=%d/%v/M=%d", s.n, s.k, t, m), func(b *testing.B) {
					var h heap
					in, w, out := make([]float32, m*s.k), make([]float32, s.n*s.k), make([]float32, m*s.n)
					op := MatMul{
						Out: address(&h, out), In: address(&h, in), Weight: address(&h, w),
						M: int32(m), N: int32(s.n), K: int32(s.k), DType: t,
					}
					for b.Loop() {
						Run(&h, alone, op)
					}
					report(b, m, s.n, s.k, t)
				})
			}
		}
	}
}

// BenchmarkGemv is the baseline: a bare loop over the rows of the same weights.
func BenchmarkGemv(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("N=%d,K=%d/F32", s.n, s.k), func(b *testing.B) {
			x, w, out := make([]float32, s.k), make([]float32, s.n*s.k), make([]float32, s.n)
			for b.Loop() {
				for i := range out {
					out[i] = dot(x, w[i*s.k:(i+1)*s.k])
				}
			}
			report(b, 1, s.n, s.k, cuda.F32)
		})
	}
}

func report(b *testing.B, m, n, k int, t cuda.DType) {
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(int64(n)*int64(k)*t.Bytes())/seconds/1e9, "GB/s")
	b.ReportMetric(2*float64(m)*float64(n)*float64(k)/seconds/1e9, "GFLOP/s")
}

// BenchmarkAttention uses the heads of the shipped model.
func BenchmarkAttention(b *testing.B) {
	const heads, size, blocks = 6, 16, 64
	var h heap
	kv := KVLayout{Blocks: blocks, BlockTokens: size, KVHeads: 2, HeadDim: 32}
	dim := int(kv.KVHeads * kv.HeadDim)
	kv.BlockBytes, kv.ValueOffset = int64(2*4*size*dim), int64(4*size*dim)
	arena, q, table := make([]float32, blocks*2*size*dim), make([]float32, heads*kv.HeadDim), make([]int32, blocks)
	for i := range arena {
		arena[i] = float32(i%17) / 17
	}
	for i := range table {
		table[i] = int32(i * 7 % blocks)
	}
	kv.Arena = address(&h, arena)
	for _, position := range []int32{50, 500} {
		b.Run(fmt.Sprintf("position=%d", position), func(b *testing.B) {
			op := Attention{
				Out: address(&h, make([]float32, len(q))), Q: address(&h, q), Rows: address(&h, []int32{0}),
				Positions: address(&h, []int32{position}), Tables: address(&h, table), TableWidth: blocks,
				N: 1, Heads: heads, Scale: 0.2, KV: kv,
			}
			for b.Loop() {
				Run(&h, alone, op)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/heads/float64(position+1), "ns/score")
		})
	}
}

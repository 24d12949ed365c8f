package kernels

import (
	"fmt"
	"testing"
	"unsafe"

	"troupe/cuda"
)

// BenchmarkLoRA computes a projection of 64 rows with adapters of one rank, on one core.
func BenchmarkLoRA(b *testing.B) {
	const n, in, out = 64, 192, 512
	for _, rank := range []int{8, 16, 64} {
		for _, count := range []int{1, 32} {
			b.Run(fmt.Sprintf("rank=%d/adapters=%d", rank, count), func(b *testing.B) {
				var h heap
				rows, offsets, ranks := make([]int32, n), make([]int64, count), make([]int32, count)
				bAt, pages, scales := make([]int64, count), make([]cuda.Ptr, count), make([]float32, count)
				for i := range rows {
					rows[i] = int32(i * count / n)
				}
				for i := range pages {
					page := make([]float32, PageBytes/4+64)
					at := -uintptr(unsafe.Pointer(unsafe.SliceData(page))) % 256 / 4
					pages[i], bAt[i], ranks[i] = address(&h, page[at:]), int64(4*rank*in), int32(rank)
				}
				a := LoRA{
					Rows: address(&h, rows), Pages: address(&h, pages), Offsets: address(&h, offsets),
					Ranks:  address(&h, ranks),
					Scales: address(&h, scales), Adapters: int32(count), PageWidth: 1, MaxRank: int32(rank),
				}
				e := a
				e.Offsets = address(&h, bAt)
				mid := address(&h, make([]float32, n*rank))
				shrink := LoRAShrink{Mid: mid, In: address(&h, make([]float32, n*in)), N: n, K: in, A: a}
				expand := LoRAExpand{Out: address(&h, make([]float32, n*out)), Mid: mid, N: n, Dim: out, B: e}
				for _, op := range []cuda.Op{shrink, expand} {
					b.Run(op.Kernel(), func(b *testing.B) {
						for b.Loop() {
							Run(&h, alone, op)
						}
						length := in
						if op == cuda.Op(expand) {
							length = out
						}
						b.ReportMetric(float64(b.N)*2*float64(n*rank*length)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
						b.ReportMetric(float64(b.N)*4*float64(count*rank*length)/b.Elapsed().Seconds()/1e9, "GB/s")
					})
				}
			})
		}
	}
}

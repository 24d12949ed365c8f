package cudatest

import (
	"fmt"
	"math"
	"slices"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// ranks are the ranks of a pool's adapters. Some do not fill a vector.
var ranks = []int32{8, 1, 32, 5, 16}

// pool holds adapters of mixed ranks in scattered pages. Adapter 1 has a rank but no matrices;
// those of adapter 2 cross the end of its first page.
type pool struct {
	k, dim int // input and output size of the projection
	a, b   kernels.LoRA
	as, bs [][]float64
	scales []float32
	arena  cuda.Ptr
}

func (b *bench) pool(t cuda.DType, k, dim int) *pool {
	b.Helper()
	n, width := len(ranks), 2
	p := &pool{k: k, dim: dim, as: make([][]float64, n), bs: make([][]float64, n), scales: b.random(n)}
	pages, aAt, bAt := make([]cuda.Ptr, n*width), make([]int64, n), make([]int64, n)
	p.arena = must[cuda.Ptr](b.T)(b.d.Alloc(int64(n*width) * kernels.PageBytes))
	for i, page := range b.r.Perm(n * width) {
		pages[i] = p.arena.Offset(int64(page) * kernels.PageBytes)
	}
	for i, rank := range ranks {
		aBytes := int64(rank) * int64(k) * t.Bytes()
		aAt[i], bAt[i] = 64, 64+(aBytes+15)&^15
		switch i {
		case 1:
			aAt[i], bAt[i] = -1, -1
			continue
		case 2:
			aAt[i] = kernels.PageBytes - 16*int64(k/4) // in the middle of a row
			bAt[i] = aAt[i] + (aBytes+15)&^15
		}
		table := pages[i*width:][:width]
		p.as[i] = b.paged(t, int(rank)*k, table, aAt[i])
		p.bs[i] = b.paged(t, int(rank)*dim, table, bAt[i])
	}
	p.a = kernels.LoRA{
		Pages: put(b, pages), Ranks: put(b, ranks), Scales: put(b, p.scales), Adapters: int32(n),
		PageWidth: int32(width), MaxRank: 32, DType: t,
	}
	p.b = p.a
	p.a.Offsets, p.b.Offsets = put(b, aAt), put(b, bAt)
	return p
}

// paged writes n random elements into pages, starting at an offset.
func (b *bench) paged(t cuda.DType, n int, pages []cuda.Ptr, at int64) []float64 {
	b.Helper()
	from, values := b.weights(t, n)
	for left := int64(n) * t.Bytes(); left > 0; {
		some := min(left, kernels.PageBytes-at%kernels.PageBytes)
		if err := b.s.Copy(pages[at/kernels.PageBytes].Offset(at%kernels.PageBytes), from, some); err != nil {
			b.Fatal(err)
		}
		from, at, left = from.Offset(some), at+some, left-some
	}
	return values
}

// apply adds each row's adapter output for in to out. Mid is filled with NaN first, so that a read
// beyond the rank is detected.
func (b *bench) apply(p *pool, rows []int32, in, out []float32) []float32 {
	b.Helper()
	n := len(rows)
	a, expand := p.a, p.b
	a.Rows = put(b, rows)
	expand.Rows = a.Rows
	mid, to := put(b, slices.Repeat([]float32{float32(math.NaN())}, n*int(a.MaxRank))), put(b, out)
	b.launch(kernels.LoRAShrink{Mid: mid, In: put(b, in), N: int32(n), K: int32(p.k), A: a})
	b.launch(kernels.LoRAExpand{Out: to, Mid: mid, N: int32(n), Dim: int32(p.dim), B: expand})
	return b.get(to, len(out))
}

// mixed has more rows of one adapter than a block of threads handles at once, rows without an
// adapter, and all adapters alternating.
var mixed = slices.Concat(
	slices.Repeat([]int32{2}, 11),
	[]int32{-1, 0, 1, 3, 4, 4, -1, -1, 0, 3, 3, 0, 2, 4, 1, 0, 0},
)

func (b *bench) lora(t cuda.DType, k, dim int) {
	b.Helper()
	p := b.pool(t, k, dim)
	in, old := b.random(len(mixed)*k), b.random(len(mixed)*dim)
	want := make([]float64, len(old))
	for i, adapter := range mixed {
		var delta []float64
		if adapter >= 0 && p.as[adapter] != nil {
			delta = p.delta(int(adapter), in[i*k:][:k])
		}
		for j := range dim {
			want[i*dim+j] = float64(old[i*dim+j])
			if delta != nil {
				want[i*dim+j] += delta[j]
			}
		}
	}
	got := b.apply(p, mixed, in, old)
	for i, row := range mixed {
		if row < 0 || p.as[row] == nil {
			b.same("a row without an adapter", got[i*dim:(i+1)*dim], old[i*dim:(i+1)*dim])
		}
	}
	b.free(p.arena)
	b.near(fmt.Sprintf("adapters of %v, %d to %d", t, k, dim), got, want, k*int(slices.Max(ranks)))
}

// delta returns B·A·x · scale.
func (p *pool) delta(adapter int, x []float32) []float64 {
	rank, sums := int(ranks[adapter]), make([]float64, p.dim)
	for r := range rank {
		mid := 0.0
		for i, v := range x {
			mid += float64(v) * p.as[adapter][r*p.k+i]
		}
		for j := range sums {
			sums[j] += mid * float64(p.scales[adapter]) * p.bs[adapter][j*rank+r]
		}
	}
	return sums
}

// loraAlone checks that an adapter's effect on a row has the same bits whatever adapters the other
// rows have.
func (b *bench) loraAlone() {
	b.Helper()
	const k, dim = 96, 70
	p := b.pool(cuda.BF16, k, dim)
	in, old := b.random(len(mixed)*k), b.random(len(mixed)*dim)
	all := b.apply(p, mixed, in, old)
	for i := range mixed {
		alone := b.apply(p, mixed[i:i+1], in[i*k:(i+1)*k], old[i*dim:(i+1)*dim])
		b.same(fmt.Sprintf("row %d with adapter %d", i, mixed[i]), all[i*dim:(i+1)*dim], alone)
	}
	b.free(p.arena)
}

package cudatest

import (
	"math"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

type heads struct{ query, kv, dim int }

// cache holds the keys and values of two sequences in shuffled blocks.
type cache struct {
	heads
	layout       kernels.KVLayout
	width        int // width of a block table
	tables       cuda.Ptr
	keys, values [2][]float32 // [position, kv, dim]
}

var lengths = [2]int{37, 9}

// store fills a cache through StoreKV. All other elements are NaN, so that a read outside is
// detected.
func (b *bench) store(h heads, blockTokens int) *cache {
	b.Helper()
	const blocks, padding = 22, 12 // padding: space of other layers in a block
	kv := h.kv * h.dim
	half := 4 * blockTokens * kv
	c := &cache{heads: h, width: (lengths[0] + blockTokens - 1) / blockTokens}
	arena := make([]float32, blocks*(2*half+2*padding)/4)
	for i := range arena {
		arena[i] = float32(math.NaN())
	}
	c.layout = kernels.KVLayout{
		Arena: put(b, arena), BlockBytes: int64(2*half + 2*padding), KeyOffset: padding,
		ValueOffset: int64(2*padding + half),
		Blocks:      blocks, BlockTokens: int32(blockTokens), KVHeads: int32(h.kv), HeadDim: int32(h.dim),
	}
	tables := make([]int32, 2*c.width)
	for i, block := range b.r.Perm(blocks)[:2*c.width] {
		tables[i] = int32(block)
	}
	c.tables = put(b, tables)
	for s, n := range lengths {
		c.keys[s], c.values[s] = b.random(n*kv), b.random(n*kv)
		slots := make([]int32, n)
		for p := range slots {
			slots[p] = tables[s*c.width+p/blockTokens]*int32(blockTokens) + int32(p%blockTokens)
		}
		b.launch(
			kernels.StoreKV{
				K:     put(b, c.keys[s]),
				V:     put(b, c.values[s]),
				Slots: put(b, slots),
				N:     int32(n),
				KV:    c.layout,
			},
		)
	}
	return c
}

// row is a query row.
type row struct{ sequence, position int32 }

// everywhere returns all positions of both sequences, as in a prefill, followed by single ones, as
// in a decode.
func everywhere() (rows []row) {
	for s, n := range lengths {
		for p := range n {
			rows = append(rows, row{int32(s), int32(p)})
		}
	}
	return append(rows, row{1, 8}, row{0, 36}, row{0, 0})
}

// look runs the attention kernel on rows of q.
func (b *bench) look(c *cache, q []float32, rows []row, window int) []float32 {
	b.Helper()
	sequences, positions := make([]int32, len(rows)), make([]int32, len(rows))
	for i, r := range rows {
		sequences[i], positions[i] = r.sequence, r.position
	}
	out := put(b, make([]float32, len(q)))
	b.launch(kernels.Attention{
		Out: out, Q: put(b, q), Rows: put(b, sequences), Positions: put(b, positions), Tables: c.tables,
		TableWidth: int32(c.width),
		N:          int32(len(rows)), Heads: int32(c.query), Window: int32(window), Scale: 0.3, KV: c.layout,
	})
	return b.get(out, len(q))
}

func (b *bench) attend(h heads, blockTokens, window int) {
	b.Helper()
	c, rows := b.store(h, blockTokens), everywhere()
	q := b.random(len(rows) * h.query * h.dim)
	for i := range q[:len(q)/2] {
		q[i] *= 20 // scores whose exponential overflows F32
	}
	var want []float64
	for i, r := range rows {
		for head := range h.query {
			at := (i*h.query + head) * h.dim
			want = append(want, c.mean(q[at:at+h.dim], r, head, window)...)
		}
	}
	b.near("attention", b.look(c, q, rows, window), want, h.dim)
}

// mean returns the expected output for a head with query q at row r.
func (c *cache) mean(q []float32, r row, head, window int) []float64 {
	first, last := 0, int(r.position)
	if window > 0 {
		first = max(0, last-window+1)
	}
	out, total := make([]float64, c.dim), 0.0
	for p := first; p <= last; p++ {
		at := (p*c.kv + head/(c.query/c.kv)) * c.dim
		score := 0.0
		for j, x := range q {
			score += float64(x) * float64(c.keys[r.sequence][at+j])
		}
		weight := math.Exp(0.3 * score)
		total += weight
		for j := range out {
			out[j] += weight * float64(c.values[r.sequence][at+j])
		}
	}
	for j := range out {
		out[j] /= total
	}
	return out
}

// paddingRows checks that rows of padding store nothing and have output 0, and that they change no other row.
func (b *bench) paddingRows(h heads) {
	b.Helper()
	c, rows, wide := b.store(h, 4), everywhere(), h.query*h.dim
	q := b.random(len(rows) * wide)
	want := b.look(c, q, rows, 0)
	bytes := int(c.layout.Blocks) * int(c.layout.BlockBytes) / 4
	before := b.get(c.layout.Arena, bytes)
	b.launch(kernels.StoreKV{
		K: put(b, b.random(2*h.kv*h.dim)), V: put(b, b.random(2*h.kv*h.dim)), Slots: put(b, []int32{-1, -1}), N: 2,
		KV: c.layout,
	})
	for i, x := range b.get(c.layout.Arena, bytes) {
		if math.Float32bits(x) != math.Float32bits(before[i]) {
			b.Fatalf("a row of padding changes element %d of the arena", i)
		}
	}
	for i := range rows {
		if i%3 == 1 || i == len(rows)-1 {
			rows[i].sequence = -1
			clear(want[i*wide : (i+1)*wide])
		}
	}
	for i, x := range b.look(c, q, rows, 0) {
		if math.Float32bits(x) != math.Float32bits(want[i]) {
			b.Fatalf("row %d with padding beside it: element %d is %v, want %v", i/wide, i%wide, x, want[i])
		}
	}
}

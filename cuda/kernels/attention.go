package kernels

import "math"

func (m machine) storeKV(op StoreKV) {
	n, dim := int(op.N), int(op.KV.KVHeads)*int(op.KV.HeadDim)
	k, v := m.f32(op.K, n*dim), m.f32(op.V, n*dim)
	kv := m.arena(op.KV)
	for i, slot := range m.i32(op.Slots, n) {
		at := index("slot", slot, op.KV.Blocks*op.KV.BlockTokens)
		keys, values := kv.block(int32(at) / op.KV.BlockTokens)
		row := at % int(op.KV.BlockTokens) * dim
		copy(keys[row:row+dim], k[i*dim:])
		copy(values[row:row+dim], v[i*dim:])
	}
}

// arena is one layer's part of a KV arena.
type arena struct {
	KVLayout
	data []float32
}

func (m machine) arena(kv KVLayout) arena {
	if kv.BlockBytes%4 != 0 || kv.KeyOffset%4 != 0 || kv.ValueOffset%4 != 0 {
		panic("KV layout is not in whole elements")
	}
	return arena{kv, m.f32(kv.Arena, int(kv.Blocks)*int(kv.BlockBytes/4))}
}

// block returns a block's keys and values, each [BlockTokens, KVHeads*HeadDim].
func (a arena) block(i int32) (keys, values []float32) {
	size := int(a.BlockBytes / 4)
	all := a.data[index("block", i, a.Blocks)*size:][:size]
	n := int(a.BlockTokens) * int(a.KVHeads) * int(a.HeadDim)
	return all[a.KeyOffset/4:][:n], all[a.ValueOffset/4:][:n]
}

func (m machine) attention(op Attention) {
	n, heads, dim, width := int(op.N), int(op.Heads), int(op.KV.HeadDim), int(op.TableWidth)
	kvHeads := int(op.KV.KVHeads)
	if heads%kvHeads != 0 {
		panic("heads are no multiple of KV heads")
	}
	q, out := m.f32(op.Q, n*heads*dim), m.f32(op.Out, n*heads*dim)
	rows, positions := m.i32(op.Rows, n), m.i32(op.Positions, n)
	sequences, longest := int32(0), int32(0)
	for i := range n {
		sequences, longest = max(sequences, rows[i]+1), max(longest, positions[i])
	}
	tables, kv := m.i32(op.Tables, int(sequences)*width), m.arena(op.KV)
	group := heads / kvHeads
	m.workers(n*kvHeads, int64(longest+1)*int64(group*dim)*4, func(lo, hi int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		for ; lo < hi; lo++ {
			i := lo / kvHeads
			a := attend{
				kv: kv, table: tables[int(rows[i])*width:][:width], head: lo % kvHeads, last: int(positions[i]),
				q: dense(q[lo*group*dim:][:group*dim], group, dim), out: dense(out[lo*group*dim:][:group*dim], group, dim),
			}
			if op.Window > 0 {
				a.first = max(0, a.last-int(op.Window)+1)
			}
			a.run(s, op.Scale)
		}
	})
}

// attend is what one row has to do for one KV head: softmax(q·Kᵀ · scale) · V, of all the heads that share it.
type attend struct {
	kv          arena
	table       []int32
	head        int
	first, last int // positions seen
	q, out      matrix
}

func (a attend) run(s *scratch, scale float32) {
	n := a.last - a.first + 1
	padded := (n + 7) / 8 * 8 // softmax takes whole vectors
	scores := matrix{s.take(a.q.rows * padded), a.q.rows, n, padded}
	a.eachBlock(func(keys, _ matrix, at int) {
		multiply(scores.fromColumn(at, keys.rows), a.q, keys, false)
	})
	clear(a.out.data)
	for h := range scores.rows {
		row := scores.data[h*padded:][:padded]
		for i := range row[:n] {
			row[i] *= scale
		}
		for i := n; i < padded; i++ {
			row[i] = float32(math.Inf(-1))
		}
		sum := softmax(row)
		a.eachBlock(func(_, values matrix, at int) {
			weigh(a.out.row(h), row[at:at+values.rows], values.data, values.stride)
		})
		for i := range a.out.row(h) {
			a.out.row(h)[i] /= sum
		}
	}
}

// eachBlock visits the blocks of the positions seen, with the head's keys and values at those positions; at counts the
// positions before them.
func (a attend) eachBlock(visit func(keys, values matrix, at int)) {
	size, dim, stride := int(a.kv.BlockTokens), int(a.kv.HeadDim), int(a.kv.KVHeads)*int(a.kv.HeadDim)
	for p := a.first; p <= a.last; {
		n := min(size-p%size, a.last+1-p)
		keys, values := a.kv.block(a.table[p/size])
		from := p%size*stride + a.head*dim
		visit(matrix{keys[from:], n, dim, stride}, matrix{values[from:], n, dim, stride}, p-a.first)
		p += n
	}
}

package kernels

import "math"

// padding is the slot and the sequence of a row that belongs to no sequence.
const padding = -1

func (m machine) storeKV(op StoreKV) {
	n, dim := int(op.N), int(op.KV.KVHeads)*int(op.KV.HeadDim)
	k, v := m.f32(op.K, n*dim), m.f32(op.V, n*dim)
	kv := m.arena(op.KV)
	for i, slot := range m.i32(op.Slots, n) {
		if slot == padding {
			continue
		}
		at := index("slot", slot, op.KV.Blocks*op.KV.BlockTokens)
		keys, values := kv.block(int32(at) / op.KV.BlockTokens)
		row := at % int(op.KV.BlockTokens) * dim
		copy(keys[row:row+dim], k[i*dim:])
		copy(values[row:row+dim], v[i*dim:])
	}
}

// arena is one layer's part of a KV arena. Only the first blocks need to have memory.
type arena struct {
	KVLayout
	data   []float32
	mapped int32 // number of blocks with memory
}

func (m machine) arena(kv KVLayout) arena {
	if kv.BlockBytes%4 != 0 || kv.KeyOffset%4 != 0 || kv.ValueOffset%4 != 0 {
		panic("KV layout is not a multiple of the element size")
	}
	if kv.BlockBytes <= 0 || kv.Blocks < 0 {
		panic("KV layout of negative size")
	}
	mapped := int64(len(m.mem.Prefix(kv.Arena, int64(kv.Blocks)*kv.BlockBytes))) / kv.BlockBytes
	return arena{kv, m.f32(kv.Arena, int(mapped*(kv.BlockBytes/4))), int32(mapped)}
}

// block returns a block's keys and values, each [BlockTokens, KVHeads*HeadDim].
func (a arena) block(i int32) (keys, values []float32) {
	size := int(a.BlockBytes / 4)
	all := a.data[index("block", i, a.mapped)*size:][:size:size]
	n := int(a.BlockTokens) * int(a.KVHeads) * int(a.HeadDim)
	return all[a.KeyOffset/4:][:n], all[a.ValueOffset/4:][:n]
}

// together is the maximum number of rows of one sequence that are processed together, and
// scoresBytes the memory limit for their scores if they are more than one.
const (
	together    = 8
	scoresBytes = 64 << 10
)

func (m machine) attention(op Attention) {
	n, kvHeads, dim := int(op.N), int(op.KV.KVHeads), int(op.KV.HeadDim)
	group := int(op.Heads) / kvHeads
	if group*kvHeads != int(op.Heads) {
		panic("the number of heads is not a multiple of KV heads")
	}
	q, out := m.f32(op.Q, n*kvHeads*group*dim), m.f32(op.Out, n*kvHeads*group*dim)
	a := attention{
		Attention: op, kv: m.arena(op.KV), group: group,
		q: dense(q, n*kvHeads, group*dim), out: dense(out, n*kvHeads, group*dim),
		rows: m.i32(op.Rows, n), positions: m.i32(op.Positions, n),
	}
	sequences, longest := int32(0), int32(0)
	for i, row := range a.rows {
		if row == padding {
			continue
		}
		index("row", row, math.MaxInt32)
		index("position", a.positions[i], op.TableWidth*op.KV.BlockTokens)
		sequences, longest = max(sequences, row+1), max(longest, a.positions[i])
	}
	a.tables = m.i32(op.Tables, int(sequences)*int(op.TableWidth))
	spans := a.spans()
	m.workers(
		len(spans)*kvHeads,
		int64(n)*int64(longest+1)*int64(group*dim)*4/int64(max(1, len(spans))),
		func(lo, hi int) {
			s := scratches.Get().(*scratch)
			defer scratches.Put(s)
			for ; lo < hi; lo++ {
				a.attend(s, spans[lo/kvHeads], lo%kvHeads)
			}
		},
	)
}

// attention is a launch with its arrays. Each row of q and out is one KV head's share of a token.
type attention struct {
	Attention
	kv              arena
	group           int // number of heads that share a KV head
	q, out          matrix
	rows, positions []int32
	tables          []int32
}

// span is rows [lo, hi), at consecutive positions of one sequence.
type span struct{ lo, hi int }

func (a *attention) spans() (spans []span) {
	for lo := 0; lo < len(a.rows); {
		if a.rows[lo] == padding {
			width := int(a.Heads) * int(a.KV.HeadDim)
			clear(a.out.data[lo*width:][:width])
			lo++
			continue
		}
		hi, most := lo+1, min(together, scoresBytes/4/a.group/int(a.positions[lo]+together))
		for hi < len(a.rows) && hi-lo < most && a.rows[hi] == a.rows[lo] && a.positions[hi] == a.positions[hi-1]+1 {
			hi++
		}
		spans = append(spans, span{lo, hi})
		lo = hi
	}
	return spans
}

// seen returns the first and last position that row i sees.
func (a *attention) seen(i int) (first, last int) {
	last = int(a.positions[i])
	if a.Window > 0 {
		first = max(0, last-int(a.Window)+1)
	}
	return first, last
}

// attend computes softmax(q·Kᵀ · scale) · V for a span and all heads that share one KV head.
//
//go:norace
func (a *attention) attend(s *scratch, span span, head int) {
	first, _ := a.seen(span.lo)
	_, last := a.seen(span.hi - 1)
	base := first &^ 7 // position of the first score, vector-aligned so that a row's sums do not depend on its span
	width, dim := (last-base+8)&^7, int(a.KV.HeadDim)
	count := (span.hi - span.lo) * a.group
	memory := s.take(count * (dim + width + 1))
	q, scores, sums := dense(memory, count, dim), dense(memory[count*dim:], count, width), memory[count*(dim+width):]
	for i := span.lo; i < span.hi; i++ {
		for j, x := range a.heads(a.q, i, head) {
			q.data[(i-span.lo)*a.group*dim+j] = x * a.Scale
		}
		clear(a.heads(a.out, i, head))
	}
	for p := first; p <= last; {
		keys, _ := a.block(span, head, p, last)
		multiply(scores.fromColumn(p-base, keys.rows), q, keys, false)
		p += keys.rows
	}
	for r := range count {
		lo, hi := a.seen(span.lo + r/a.group)
		sums[r] = weights(scores.row(r), lo-base, hi+1-base)
	}
	for p := first; p <= last; {
		_, values := a.block(span, head, p, last)
		for r := range count {
			i := span.lo + r/a.group
			lo, hi := a.seen(i)
			lo, hi = max(lo, p), min(hi+1, p+values.rows)
			if lo < hi {
				weigh(
					a.heads(a.out, i, head)[r%a.group*dim:][:dim],
					scores.row(r)[lo-base:hi-base],
					values.data[(lo-p)*values.stride:],
					values.stride,
				)
			}
		}
		p += values.rows
	}
	for r, sum := range sums[:count] {
		out := a.heads(a.out, span.lo+r/a.group, head)[r%a.group*dim:][:dim]
		for j := range out {
			out[j] /= sum
		}
	}
}

// heads returns row i's share of one KV head: [group, HeadDim].
func (a *attention) heads(m matrix, i, head int) []float32 { return m.row(i*int(a.KV.KVHeads) + head) }

// weights replaces scores lo to hi by their softmax numerators and returns the sum of these.
func weights(scores []float32, lo, hi int) float32 {
	from, to := lo&^7, (hi+7)&^7
	fill(scores[from:lo])
	fill(scores[hi:to])
	return softmax(scores[from:to])
}

// fill sets scores to a value without effect.
//
//go:norace
func fill(scores []float32) {
	for i := range scores {
		scores[i] = float32(math.Inf(-1))
	}
}

// block returns a head's keys and values from position p to the end of its block, or to position
// last.
func (a *attention) block(span span, head, p, last int) (keys, values matrix) {
	size, dim, stride := int(a.KV.BlockTokens), int(a.KV.HeadDim), int(a.KV.KVHeads)*int(a.KV.HeadDim)
	table := a.tables[int(a.rows[span.lo])*int(a.TableWidth):][:a.TableWidth]
	k, v := a.kv.block(table[p/size])
	from, n := p%size*stride+head*dim, min(size-p%size, last+1-p)
	return matrix{k[from:], n, dim, stride}, matrix{v[from:], n, dim, stride}
}

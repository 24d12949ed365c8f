package kernels

import "math"

func (m machine) storeKV(op StoreKV) {
	n, dim := int(op.N), int(op.KV.KVHeads)*int(op.KV.HeadDim)
	k, v := m.f32(op.K, n*dim), m.f32(op.V, n*dim)
	for i, slot := range m.i32(op.Slots, n) {
		at := index("slot", slot, op.KV.Blocks*op.KV.BlockTokens)
		keys, values := m.block(op.KV, at/int(op.KV.BlockTokens))
		row := at % int(op.KV.BlockTokens) * dim
		copy(keys[row:row+dim], k[i*dim:])
		copy(values[row:row+dim], v[i*dim:])
	}
}

// block returns one layer's keys and values in a block, each [BlockTokens, KVHeads*HeadDim].
func (m machine) block(kv KVLayout, i int) (keys, values []float32) {
	base := kv.Arena.Offset(int64(i) * kv.BlockBytes)
	n := int(kv.BlockTokens) * int(kv.KVHeads) * int(kv.HeadDim)
	return m.f32(base.Offset(kv.KeyOffset), n), m.f32(base.Offset(kv.ValueOffset), n)
}

func (m machine) attention(op Attention) {
	n, heads, dim, width := int(op.N), int(op.Heads), int(op.KV.HeadDim), int(op.TableWidth)
	q, out := m.f32(op.Q, n*heads*dim), m.f32(op.Out, n*heads*dim)
	rows, positions := m.i32(op.Rows, n), m.i32(op.Positions, n)
	sequences, longest := int32(0), int32(0)
	for i := range n {
		sequences, longest = max(sequences, rows[i]+1), max(longest, positions[i])
	}
	tables := m.i32(op.Tables, int(sequences)*width)
	m.workers(n, int64(longest+1)*int64(heads*dim)*4, func(lo, hi int) {
		var s scratch
		for i := lo; i < hi; i++ {
			first := 0
			if op.Window > 0 {
				first = max(0, int(positions[i]-op.Window)+1)
			}
			table := tables[int(rows[i])*width : (int(rows[i])+1)*width]
			m.attend(&s, op, out[i*heads*dim:(i+1)*heads*dim], q[i*heads*dim:(i+1)*heads*dim], table, first, int(positions[i]))
		}
	})
}

// scratch is reused from row to row.
type scratch struct {
	scores []float32 // [heads, positions]
}

// attend computes all heads of one row over positions first to last: softmax(q·K · scale) · V.
func (m machine) attend(s *scratch, op Attention, out, q []float32, table []int32, first, last int) {
	heads, dim, kvHeads := int(op.Heads), int(op.KV.HeadDim), int(op.KV.KVHeads)
	size, n, group := int(op.KV.BlockTokens), last-first+1, heads/kvHeads
	if cap(s.scores) < heads*n {
		s.scores = make([]float32, heads*n)
	}
	scores := s.scores[:heads*n]
	m.eachBlock(op.KV, table, first, last, func(keys, _ []float32, lo, hi int) {
		for p := lo; p < hi; p++ {
			row := keys[p%size*kvHeads*dim:]
			for h := range heads {
				k := row[h/group*dim : h/group*dim+dim]
				scores[h*n+p-first] = dot(q[h*dim:(h+1)*dim], k) * op.Scale
			}
		}
	})
	for h := range heads {
		softmax(scores[h*n : (h+1)*n])
	}
	clear(out)
	m.eachBlock(op.KV, table, first, last, func(_, values []float32, lo, hi int) {
		for p := lo; p < hi; p++ {
			row := values[p%size*kvHeads*dim:]
			for h := range heads {
				v := row[h/group*dim : h/group*dim+dim]
				axpy(out[h*dim:(h+1)*dim], scores[h*n+p-first], v)
			}
		}
	})
}

// eachBlock visits the blocks that hold positions first to last, with the positions [lo, hi) in each.
func (m machine) eachBlock(kv KVLayout, table []int32, first, last int, visit func(keys, values []float32, lo, hi int)) {
	size := int(kv.BlockTokens)
	for b := first / size; b <= last/size; b++ {
		keys, values := m.block(kv, index("block", table[b], kv.Blocks))
		visit(keys, values, max(first, b*size), min(last+1, (b+1)*size))
	}
}

// softmax replaces x by its softmax.
//
//go:norace
func softmax(x []float32) {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	var sum float32
	for i, v := range x {
		x[i] = exp32(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

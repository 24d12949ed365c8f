package kernels

import "troupe/cuda"

// maxRank is the highest supported rank: the size of Mid that a block of threads keeps per row.
const maxRank = 256

// adapters gives a LoRA kernel access to its arrays.
type adapters struct {
	LoRA
	m       machine
	rows    []int32
	pages   []cuda.Ptr
	offsets []int64
	ranks   []int32
	scales  []float32
}

func (m machine) adapters(op LoRA, n int32) adapters {
	if op.MaxRank < 1 || op.MaxRank > maxRank {
		panic("the highest rank is outside [1, 256]")
	}
	count := int(op.Adapters)
	return adapters{
		op, m, m.i32(op.Rows, int(n)), m.ptrs(op.Pages, count*int(op.PageWidth)), m.i64(op.Offsets, count),
		m.i32(op.Ranks, count), m.f32(op.Scales, count),
	}
}

func (m machine) shrink(op LoRAShrink) {
	a, k, width := m.adapters(op.A, op.N), int(op.K), int(op.A.MaxRank)
	in, mid := dense(m.f32(op.In, int(op.N)*k), int(op.N), k), dense(m.f32(op.Mid, int(op.N)*width), int(op.N), width)
	a.runs(int64(k)*int64(width), func(lo, hi, adapter, rank int) {
		out := matrix{mid.data[lo*width:], hi - lo, rank, width}
		a.multiply(out, in.fromRow(lo, hi-lo), adapter, false)
		for i := range out.rows {
			row := out.row(i)
			for j := range row {
				row[j] *= a.scales[adapter]
			}
		}
	})
}

func (m machine) expand(op LoRAExpand) {
	b, dim, width := m.adapters(op.B, op.N), int(op.Dim), int(op.B.MaxRank)
	out, mid := dense(m.f32(op.Out, int(op.N)*dim), int(op.N), dim), m.f32(op.Mid, int(op.N)*width)
	b.runs(int64(dim)*int64(width), func(lo, hi, adapter, rank int) {
		b.multiply(out.fromRow(lo, hi-lo), matrix{mid[lo*width:], hi - lo, rank, width}, adapter, true)
	})
}

// sharing is the maximum number of rows of one adapter that a worker processes together, enough to
// amortise reading the matrix.
const sharing = 16

// runs calls work for each run of rows with the same adapter, if it has a matrix. cost is in
// multiply-adds per row.
func (a *adapters) runs(cost int64, work func(lo, hi, adapter, rank int)) {
	var starts []int
	for i, adapter := range a.rows {
		if adapter != -1 {
			index("adapter", adapter, a.Adapters)
		}
		if i == 0 || adapter != a.rows[i-1] || i-starts[len(starts)-1] == sharing {
			starts = append(starts, i)
		}
	}
	rows := int64(len(a.rows))
	a.m.workers(len(starts), cost*rows/max(1, int64(len(starts))), func(lo, hi int) {
		for ; lo < hi; lo++ {
			from, to := starts[lo], len(a.rows)
			if lo+1 < len(starts) {
				to = starts[lo+1]
			}
			adapter := int(a.rows[from])
			if adapter < 0 || a.offsets[adapter] < 0 {
				continue
			}
			work(from, to, adapter, index("rank", a.ranks[adapter]-1, a.MaxRank)+1)
		}
	})
}

// multiply computes out = x · wᵀ, or adds it to out, with the adapter's matrix w [out.cols,
// x.cols]. It reads w in parts: in place, if its rows are whole vectors of F32 within a page, and
// otherwise through scratch memory, padded with 0.
func (a *adapters) multiply(out, x matrix, adapter int, add bool) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	k, at := x.cols, a.offsets[adapter]
	if at%16 != 0 {
		panic("a matrix does not start at a multiple of 16 bytes")
	}
	wide := vectorised(k)
	some := max(4, wideBytes/4/wide&^3)
	room := s.take((some + x.rows) * wide)
	if wide != k {
		x = filled(room[some*wide:], x, wide)
	}
	row := int64(k) * a.DType.Bytes()
	for j := 0; j < out.cols; {
		from := at + int64(j)*row
		n := min(out.cols-j, int((PageBytes-from%PageBytes)/row))
		if a.DType == cuda.F32 && wide == k && n > 0 {
			multiply(out.fromColumn(j, n), x, dense(a.m.f32(a.address(adapter, from), n*k), n, k), add)
		} else {
			n = min(out.cols-j, some)
			multiply(out.fromColumn(j, n), x, a.read(room, adapter, from, matrix{rows: n, cols: k, stride: wide}), add)
		}
		j += n
	}
}

// vectorised rounds a number of columns up to whole vectors, or to half of one.
func vectorised(k int) int {
	if k <= 8 {
		return 8
	}
	return (k + 15) &^ 15
}

// filled copies x to rows with the given number of columns, padded with 0.
func filled(room []float32, x matrix, cols int) matrix {
	w := dense(room, x.rows, cols)
	for i := range x.rows {
		clear(w.row(i)[copy(w.row(i), x.row(i)):])
	}
	return w
}

// address returns the location of a byte of an adapter's address space.
func (a *adapters) address(adapter int, at int64) cuda.Ptr {
	page := at / PageBytes
	if page >= int64(a.PageWidth) {
		panic("a matrix reaches past its adapter's pages")
	}
	return a.pages[int64(adapter)*int64(a.PageWidth)+page].Offset(at % PageBytes)
}

// read converts rows that are packed from an address in an adapter's pages on. In room, they start
// stride elements apart and are padded with 0.
func (a *adapters) read(room []float32, adapter int, at int64, w matrix) matrix {
	n := w.rows * w.cols
	if w.cols == w.stride {
		a.widen(room[:n], adapter, at)
		return dense(room, w.rows, w.cols)
	}
	// ends where the rows will end, so none is overwritten before it is copied
	packed := room[w.rows*(w.stride-w.cols):][:n]
	a.widen(packed, adapter, at)
	return filled(room, dense(packed, w.rows, w.cols), w.stride)
}

// widen converts elements from an address in an adapter's pages on.
func (a *adapters) widen(out []float32, adapter int, at int64) {
	size := a.DType.Bytes()
	for len(out) > 0 {
		from := a.address(adapter, at)
		n := int(min(int64(len(out)), (PageBytes-at%PageBytes)/size))
		if a.DType == cuda.F32 {
			copy(out[:n], a.m.f32(from, n))
		} else {
			Widen(out[:n], a.m.u16(from, n), a.DType)
		}
		out, at = out[n:], at+int64(n)*size
	}
}

package kernels

import (
	"sync"

	"troupe/cuda"
)

// matrix is rows of elements that start stride elements apart.
type matrix struct {
	data       []float32
	rows, cols int
	stride     int
}

func dense(data []float32, rows, cols int) matrix { return matrix{data, rows, cols, cols} }

func (m matrix) row(i int) []float32 { return m.data[i*m.stride:][:m.cols] }

func (m matrix) fromRow(i, n int) matrix { return matrix{m.data[i*m.stride:], n, m.cols, m.stride} }

func (m matrix) fromColumn(j, n int) matrix { return matrix{m.data[j:], m.rows, n, m.stride} }

// residentBytes is the size of the part of the input that is multiplied by all weights at a time.
// It fits into a core's second-level cache with room to spare.
const residentBytes = 256 << 10

// matMul distributes rows of weights among the workers.
func (m machine) matMul(op MatMul) {
	rows, n, k := int(op.M), int(op.N), int(op.K)
	out, in := dense(m.f32(op.Out, rows*n), rows, n), dense(m.f32(op.In, rows*k), rows, k)
	if op.Bias != 0 {
		bias(out, m.f32(op.Bias, n), op.Accumulate)
		op.Accumulate = true
	}
	resident := max(2, residentBytes/4/max(k, 1))
	m.workers(n, int64(rows)*int64(k), func(lo, hi int) {
		for i := 0; i < rows; i += resident {
			some := min(resident, rows-i)
			m.columns(op, out.fromRow(i, some), in.fromRow(i, some), lo, hi)
		}
	})
}

func bias(out matrix, bias []float32, accumulate bool) {
	for i := range out.rows {
		row := out.row(i)
		if !accumulate {
			copy(row, bias)
			continue
		}
		for j, b := range bias {
			row[j] += b
		}
	}
}

// columns computes columns lo to hi of out.
func (m machine) columns(op MatMul, out, in matrix, lo, hi int) {
	k := in.cols
	at := op.Weight.Offset(op.DType.Bytes() * int64(lo) * int64(k))
	if op.DType == cuda.F32 {
		multiply(out.fromColumn(lo, hi-lo), in, dense(m.f32(at, (hi-lo)*k), hi-lo, k), op.Accumulate)
		return
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	narrow := m.u16(at, (hi-lo)*k)
	some := max(4, wideBytes/4/max(k, 1)&^3)
	for ; lo < hi; lo += some {
		n := min(some, hi-lo)
		wide := s.take(n * k)
		Widen(wide, narrow[:n*k], op.DType)
		multiply(out.fromColumn(lo, n), in, dense(wide, n, k), op.Accumulate)
		narrow = narrow[n*k:]
	}
}

// wideBytes is the size of narrow weights that are converted at a time, less than a core's
// first-level cache.
const wideBytes = 16 << 10

// scratch is temporary memory of a kernel.
type scratch struct{ floats []float32 }

// scratches pools scratch memory between launches.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// take returns n elements of arbitrary value.
func (s *scratch) take(n int) []float32 {
	if cap(s.floats) < n {
		s.floats = make([]float32, n)
	}
	return s.floats[:n]
}

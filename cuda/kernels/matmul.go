package kernels

import "troupe/cuda"

// matMul computes one row of weights against all rows of the input at a time, so that the weights, which are the larger
// part, are read once. Rows of weights are shared out to the workers.
func (m machine) matMul(op MatMul) {
	rows, n, k := int(op.M), int(op.N), int(op.K)
	out, in := m.f32(op.Out, rows*n), m.f32(op.In, rows*k)
	var bias []float32
	if op.Bias != 0 {
		bias = m.f32(op.Bias, n)
	}
	m.workers(n, int64(rows)*int64(k), func(lo, hi int) {
		t := tile{out: out, in: in, rows: rows, n: n, k: k, accumulate: op.Accumulate, bias: bias}
		if op.DType == cuda.F32 {
			t.multiply(m.f32(op.Weight.Offset(4*int64(lo)*int64(k)), (hi-lo)*k), lo)
			return
		}
		narrow := make([]float32, weightRows*k) // a few rows, widened
		for ; lo < hi; lo += weightRows {
			some := narrow[:min(weightRows, hi-lo)*k]
			m.widen(some, op.Weight.Offset(op.DType.Bytes()*int64(lo)*int64(k)), op.DType)
			t.multiply(some, lo)
		}
	})
}

// weightRows is how many rows of weights one pass multiplies.
const weightRows = 8

type tile struct {
	out, in    []float32
	rows, n, k int
	accumulate bool
	bias       []float32
}

// multiply computes the columns of out from first on, one for each row of weights.
func (t *tile) multiply(weights []float32, first int) {
	for ; len(weights) >= weightRows*t.k; weights, first = weights[weightRows*t.k:], first+weightRows {
		var sums [weightRows]float32
		for i := range t.rows {
			dot8(&sums, t.in[i*t.k:(i+1)*t.k], weights)
			for j, sum := range sums {
				t.store(i, first+j, sum)
			}
		}
	}
	for ; len(weights) > 0; weights, first = weights[t.k:], first+1 {
		for i := range t.rows {
			t.store(i, first, dot(t.in[i*t.k:(i+1)*t.k], weights[:t.k]))
		}
	}
}

func (t *tile) store(row, column int, sum float32) {
	if t.bias != nil {
		sum += t.bias[column]
	}
	at := &t.out[row*t.n+column]
	if t.accumulate {
		sum += *at
	}
	*at = sum
}

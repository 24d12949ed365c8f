package kernels

import (
	"math"

	"troupe/cuda"
)

func (m machine) embed(op Embed) {
	n, dim := int(op.N), int(op.Dim)
	out, tokens := m.f32(op.Out, n*dim), m.i32(op.Tokens, n)
	for i, t := range tokens {
		row := op.Table.Offset(int64(index("token", t, op.Vocab)) * int64(dim) * op.DType.Bytes())
		if op.DType == cuda.F32 {
			copy(out[i*dim:][:dim], m.f32(row, dim))
		} else {
			Widen(out[i*dim:][:dim], m.u16(row, dim), op.DType)
		}
	}
}

// Widen converts narrow weights to F32. The results are as many as the weights.
func Widen(out []float32, in []uint16, t cuda.DType) {
	switch t {
	case cuda.F16:
		widenF16(out, in)
	case cuda.BF16:
		widenBF16(out, in)
	default:
		panic("weights of type " + t.String())
	}
}

func (m machine) rmsNorm(op RMSNorm) {
	n, dim := int(op.N), int(op.Dim)
	out, in, weight := m.f32(op.Out, n*dim), m.f32(op.In, n*dim), m.f32(op.Weight, dim)
	for i := range n {
		x := in[i*dim:][:dim]
		mean := float64(dot(x, x)) / float64(dim)
		scale(out[i*dim:][:dim], x, weight, float32(1/math.Sqrt(mean+float64(op.Eps))))
	}
}

//go:norace
func (m machine) rope(op Rope) {
	n, heads, half := int(op.N), int(op.Heads), int(op.HeadDim)/2
	x, positions, freq := m.f32(op.X, n*heads*2*half), m.i32(op.Positions, n), m.f32(op.InvFreq, half)
	sin, cos := make([]float32, half), make([]float32, half)
	for i, p := range positions {
		for j, f := range freq {
			s, c := math.Sincos(float64(p) * float64(f))
			sin[j], cos[j] = float32(s), float32(c)
		}
		row := x[i*heads*2*half : (i+1)*heads*2*half]
		for ; len(row) > 0; row = row[2*half:] {
			lo, hi := row[:half], row[half:2*half]
			for j, a := range lo {
				b := hi[j]
				lo[j], hi[j] = a*cos[j]-b*sin[j], b*cos[j]+a*sin[j]
			}
		}
	}
}

func (m machine) siluMul(op SiluMul) {
	out, gate, up := m.f32(op.Out, int(op.N)), m.f32(op.Gate, int(op.N)), m.f32(op.Up, int(op.N))
	m.workers(len(out), 20, func(lo, hi int) {
		siluMul(out[lo:hi], gate[lo:hi], up[lo:hi])
	})
}

func (m machine) gatherRows(op GatherRows) {
	n, dim := int(op.N), int(op.Dim)
	out, in := m.f32(op.Out, n*dim), m.f32(op.In, int(op.InRows)*dim)
	for i, r := range m.i32(op.Index, n) {
		at := index("row", r, op.InRows) * dim
		copy(out[i*dim:(i+1)*dim], in[at:at+dim])
	}
}

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
		m.widen(out[i*dim:(i+1)*dim], row, op.DType)
	}
}

// widen reads a row of weights as F32.
func (m machine) widen(out []float32, row cuda.Ptr, t cuda.DType) {
	switch t {
	case cuda.F32:
		copy(out, m.f32(row, len(out)))
	case cuda.F16:
		for i, h := range m.u16(row, len(out)) {
			out[i] = F16ToF32(h)
		}
	case cuda.BF16:
		for i, h := range m.u16(row, len(out)) {
			out[i] = math.Float32frombits(uint32(h) << 16)
		}
	default:
		panic("weights of type " + t.String())
	}
}

func (m machine) rmsNorm(op RMSNorm) {
	n, dim := int(op.N), int(op.Dim)
	out, in, weight := m.f32(op.Out, n*dim), m.f32(op.In, n*dim), m.f32(op.Weight, dim)
	for i := range n {
		x, y := in[i*dim:(i+1)*dim], out[i*dim:(i+1)*dim]
		scale := float32(1 / math.Sqrt(float64(dot(x, x))/float64(dim)+float64(op.Eps)))
		for j := range y {
			y[j] = x[j] * scale * weight[j]
		}
	}
}

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
		for i := lo; i < hi; i++ {
			g := gate[i]
			out[i] = g / (1 + exp32(-g)) * up[i]
		}
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

// F16ToF32 widens an IEEE 754 binary16.
func F16ToF32(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0: // zero and subnormal: frac · 2⁻²⁴
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f: // infinity and NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// exp32 is eˣ by range reduction to 2ⁿ·eʳ with |r| ≤ ln2/2 and a polynomial of degree 6; relative error below 1e-6. It
// is 0 for very negative and +Inf for very large x, and NaN for NaN.
func exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < -87.3:
		return 0
	case x > 88.7:
		return float32(math.Inf(1))
	}
	const log2e, ln2hi, ln2lo = 1.4426950408889634, 0.693359375, -2.12194440e-4
	n := float32(math.Floor(float64(x*log2e + 0.5)))
	r := x - n*ln2hi - n*ln2lo
	p := float32(1.0 / 720)
	for _, c := range [...]float32{1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1} {
		p = p*r + c
	}
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

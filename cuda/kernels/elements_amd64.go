//go:build goexperiment.simd && amd64

package kernels

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

func load8(x []float32) f8 { return archsimd.LoadFloat32x8((*[8]float32)(x)) }

func store8(v f8, x []float32) { v.Store((*[8]float32)(x)) }

//go:norace
func weigh8(y, p, v []float32, stride int) {
	j := 0
	for ; j+32 <= len(y); j += 32 {
		out := (*[32]float32)(y[j:])
		a, b, c, d := load8(out[:]), load8(out[8:]), load8(out[16:]), load8(out[24:])
		for i, weight := range p {
			w, x := archsimd.BroadcastFloat32x8(weight), (*[32]float32)(v[i*stride+j:])
			a, b = w.MulAdd(load8(x[:]), a), w.MulAdd(load8(x[8:]), b)
			c, d = w.MulAdd(load8(x[16:]), c), w.MulAdd(load8(x[24:]), d)
		}
		store8(a, out[:])
		store8(b, out[8:])
		store8(c, out[16:])
		store8(d, out[24:])
	}
	for ; j+8 <= len(y); j += 8 {
		a := load8(y[j:])
		for i, weight := range p {
			a = archsimd.BroadcastFloat32x8(weight).MulAdd(load8(v[i*stride+j:]), a)
		}
		store8(a, y[j:])
	}
	archsimd.ClearAVXUpperBits()
	if j < len(y) {
		weighPlain(y[j:], p, v[j:], stride)
	}
}

//go:norace
func scale8(y, x, w []float32, s float32) {
	v := archsimd.BroadcastFloat32x8(s)
	for len(y) >= 8 {
		store8(load8(x).Mul(v).Mul(load8(w)), y)
		y, x, w = y[8:], x[8:], w[8:]
	}
	archsimd.ClearAVXUpperBits()
	scalePlain(y, x, w, s)
}

//go:norace
func siluMul8(out, gate, up []float32) {
	for len(gate) >= 8 {
		store8(silu8(load8(gate)).Mul(load8(up)), out)
		out, gate, up = out[8:], gate[8:], up[8:]
	}
	if len(gate) > 0 { // also in lanes, to get the same bits
		var g, u [8]float32
		copy(g[:], gate)
		copy(u[:], up)
		store8(silu8(load8(g[:])).Mul(load8(u[:])), g[:])
		copy(out[:len(gate)], g[:])
	}
	archsimd.ClearAVXUpperBits()
}

func silu8(g f8) f8 {
	return g.Div(archsimd.BroadcastFloat32x8(1).Add(exp8(archsimd.BroadcastFloat32x8(0).Sub(g))))
}

//go:norace
func softmax8(x []float32) float32 {
	var lanes [8]float32
	tops := archsimd.BroadcastFloat32x8(float32(math.Inf(-1)))
	for i := 0; i+8 <= len(x); i += 8 {
		tops = tops.Max(load8(x[i:]))
	}
	tops.Store(&lanes)
	top := archsimd.BroadcastFloat32x8(
		max(lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]),
	)
	var sum f8
	for i := 0; i+8 <= len(x); i += 8 {
		e := exp8(load8(x[i:]).Sub(top))
		store8(e, x[i:])
		sum = sum.Add(e)
	}
	sum4(sum, sum, sum, sum).Store((*[4]float32)(lanes[:]))
	archsimd.ClearAVXUpperBits()
	return lanes[0]
}

// exp8 computes eˣ; see expMin for the method.
//
//go:norace
func exp8(x f8) f8 {
	x = archsimd.BroadcastFloat32x8(expMin).Max(x) // keeps NaN, since x is the second operand
	x = archsimd.BroadcastFloat32x8(expMax).Min(x)
	n := x.Mul(archsimd.BroadcastFloat32x8(log2e)).RoundToEven()
	r := n.MulAdd(archsimd.BroadcastFloat32x8(-ln2hi), x)
	r = n.MulAdd(archsimd.BroadcastFloat32x8(-ln2lo), r)
	p := archsimd.BroadcastFloat32x8(1.0 / 720)
	p = p.MulAdd(r, archsimd.BroadcastFloat32x8(1.0/120))
	p = p.MulAdd(r, archsimd.BroadcastFloat32x8(1.0/24))
	p = p.MulAdd(r, archsimd.BroadcastFloat32x8(1.0/6))
	p = p.MulAdd(r, archsimd.BroadcastFloat32x8(0.5))
	p = p.MulAdd(r, archsimd.BroadcastFloat32x8(1))
	p = p.MulAdd(r, archsimd.BroadcastFloat32x8(1))
	power := n.ConvertToInt32().Add(archsimd.BroadcastInt32x8(127)).ShiftAllLeft(23)
	return p.Mul(power.AsFloat32x8())
}

type eightHalves [8]uint16

// wholeHalves returns the whole vectors of eight of x.
func wholeHalves(x []uint16) []eightHalves {
	if len(x) < 8 {
		return nil // a pointer to a vector would reach past the end
	}
	return unsafe.Slice((*eightHalves)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/8)
}

//go:norace
func widenF16x8(out []float32, in []uint16) {
	magnitude, sign, infinite := archsimd.BroadcastUint32x8(
		0x7fff,
	), archsimd.BroadcastUint32x8(
		0x8000,
	), archsimd.BroadcastUint32x8(
		0x7f800000,
	)
	bias, top := archsimd.BroadcastFloat32x8(0x1p112), archsimd.BroadcastFloat32x8(65536)
	halves := wholeHalves(in)
	for i := range halves {
		h := archsimd.LoadUint16x8((*[8]uint16)(&halves[i])).ExtendToUint32()
		f := h.And(magnitude).ShiftAllLeft(13).AsFloat32x8().Mul(bias) // also correct for subnormal numbers
		bits := f.AsUint32x8()
		bits = bits.Or(infinite).Merge(bits, f.GreaterEqual(top)) // infinity and NaN
		store8(bits.Or(h.And(sign).ShiftAllLeft(16)).AsFloat32x8(), out[8*i:])
	}
	archsimd.ClearAVXUpperBits()
	done := len(in) / 8 * 8
	widenF16Plain(out[done:], in[done:])
}

//go:norace
func widenBF16x8(out []float32, in []uint16) {
	halves := wholeHalves(in)
	for i := range halves {
		h := archsimd.LoadUint16x8((*[8]uint16)(&halves[i])).ExtendToUint32()
		store8(h.ShiftAllLeft(16).AsFloat32x8(), out[8*i:])
	}
	archsimd.ClearAVXUpperBits()
	done := len(in) / 8 * 8
	widenBF16Plain(out[done:], in[done:])
}

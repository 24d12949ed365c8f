//go:build goexperiment.simd && amd64

package kernels

import "simd/archsimd"

func best() level {
	switch x := archsimd.X86; {
	case x.AVX512():
		return avx512
	case x.AVX2() && x.FMA():
		return avx2
	}
	return plain
}

// dot returns the inner product of two slices of the same length.
//
//go:norace
func dot(a, b []float32) float32 {
	if vectors == plain {
		return dotPlain(a, b)
	}
	return dot8(a, b)
}

// multiply computes out = x · wᵀ, or adds it to out. Each element is one inner product with a fixed
// order of summation.
//
//go:norace
func multiply(out, x, w matrix, add bool) {
	switch {
	case vectors == plain:
		multiplyPlain(&out, &x, &w, add)
	case x.cols == 8 && w.stride == 8:
		multiplyEight(&out, &x, &w, add)
	case vectors == avx2:
		multiply8(&out, &x, &w, add)
	default:
		multiply16(&out, &x, &w, add)
	}
}

// weigh adds p[i] · v[i*stride:] to y, for each i in order.
//
//go:norace
func weigh(y, p, v []float32, stride int) {
	if vectors == plain {
		weighPlain(y, p, v, stride)
		return
	}
	weigh8(y, p, v, stride)
}

// scale sets y to x · s ⊙ w.
//
//go:norace
func scale(y, x, w []float32, s float32) {
	if vectors == plain {
		scalePlain(y, x, w, s)
		return
	}
	scale8(y, x, w, s)
}

// siluMul sets out to silu(gate) ⊙ up. An element's result does not depend on its position.
//
//go:norace
func siluMul(out, gate, up []float32) {
	if vectors == plain {
		siluMulPlain(out, gate, up)
		return
	}
	siluMul8(out, gate, up)
}

// softmax replaces x by e^(x - max(x)) and returns the sum. The length is a multiple of eight.
//
//go:norace
func softmax(x []float32) float32 {
	if vectors == plain {
		return softmaxPlain(x)
	}
	return softmax8(x)
}

//go:norace
func widenF16(out []float32, in []uint16) {
	if vectors == plain {
		widenF16Plain(out, in)
		return
	}
	widenF16x8(out, in)
}

//go:norace
func widenBF16(out []float32, in []uint16) {
	if vectors == plain {
		widenBF16Plain(out, in)
		return
	}
	widenBF16x8(out, in)
}

//go:build goexperiment.simd && amd64

package kernels

import "simd/archsimd"

// hasVectors says whether this processor has what the vector forms need.
var hasVectors = archsimd.X86.AVX512()

// dot is the inner product of two slices of the same length.
//
//go:norace
func dot(a, b []float32) float32 {
	if !hasVectors {
		return dotScalar(a, b)
	}
	b = b[:len(a)]
	var sum archsimd.Float32x16
	for len(a) >= 16 {
		sum = archsimd.LoadFloat32x16Slice(a).MulAdd(archsimd.LoadFloat32x16Slice(b), sum)
		a, b = a[16:], b[16:]
	}
	return rest(reduce(sum), a, b)
}

// dot8 is the inner product of x with each of eight rows of w. Each sum is taken in dot's order.
//
//go:norace
func dot8(sums *[weightRows]float32, x, w []float32) {
	if !hasVectors {
		dot8Scalar(sums, x, w)
		return
	}
	k := len(x)
	w0, w1, w2, w3 := w[:k], w[k:2*k], w[2*k:3*k], w[3*k:4*k]
	w4, w5, w6, w7 := w[4*k:5*k], w[5*k:6*k], w[6*k:7*k], w[7*k:8*k]
	var s0, s1, s2, s3, s4, s5, s6, s7 archsimd.Float32x16
	i := 0
	for ; i+16 <= k; i += 16 {
		v := archsimd.LoadFloat32x16((*[16]float32)(x[i:]))
		s0 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w0[i:])), s0)
		s1 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w1[i:])), s1)
		s2 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w2[i:])), s2)
		s3 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w3[i:])), s3)
		s4 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w4[i:])), s4)
		s5 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w5[i:])), s5)
		s6 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w6[i:])), s6)
		s7 = v.MulAdd(archsimd.LoadFloat32x16((*[16]float32)(w7[i:])), s7)
	}
	sums[0], sums[1], sums[2], sums[3] = rest(reduce(s0), x[i:], w0[i:]), rest(reduce(s1), x[i:], w1[i:]), rest(reduce(s2), x[i:], w2[i:]), rest(reduce(s3), x[i:], w3[i:])
	sums[4], sums[5], sums[6], sums[7] = rest(reduce(s4), x[i:], w4[i:]), rest(reduce(s5), x[i:], w5[i:]), rest(reduce(s6), x[i:], w6[i:]), rest(reduce(s7), x[i:], w7[i:])
}

// reduce adds the lanes, always in the same order.
//
//go:norace
func reduce(v archsimd.Float32x16) float32 {
	var lanes [8]float32
	v.GetLo().Add(v.GetHi()).Store(&lanes)
	return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]))
}

// axpy adds a·x to y.
//
//go:norace
func axpy(y []float32, a float32, x []float32) {
	if !hasVectors {
		axpyScalar(y, a, x)
		return
	}
	x = x[:len(y)]
	v := archsimd.BroadcastFloat32x16(a)
	for len(y) >= 16 {
		v.MulAdd(archsimd.LoadFloat32x16Slice(x), archsimd.LoadFloat32x16Slice(y)).StoreSlice(y)
		x, y = x[16:], y[16:]
	}
	axpyScalar(y, a, x)
}

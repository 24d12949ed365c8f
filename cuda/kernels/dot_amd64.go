//go:build goexperiment.simd && amd64

package kernels

import (
	"simd/archsimd"
	"unsafe"
)

// An inner product is computed in sixteen interleaved sums s0 … s15. With hᵢ = sᵢ + sᵢ₊₈ it is
// ((h0+h1) + (h2+h3)) + ((h4+h5) + (h6+h7)), followed by the remaining products one by one. Every
// variant below keeps this order.

type (
	f4      = archsimd.Float32x4
	f8      = archsimd.Float32x8
	f16     = archsimd.Float32x16
	sixteen [16]float32
)

// whole returns the whole vectors of x. It is called for every row.
//
//go:nocheckptr
//go:norace
func whole(x []float32) []sixteen {
	if len(x) < 16 {
		return nil // a pointer to a vector would reach past the end
	}
	return unsafe.Slice((*sixteen)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/16)
}

func all(x *sixteen) f16 { return archsimd.LoadFloat32x16((*[16]float32)(x)) }
func low(x *sixteen) f8  { return archsimd.LoadFloat32x8((*[8]float32)(x[:8])) }
func high(x *sixteen) f8 { return archsimd.LoadFloat32x8((*[8]float32)(x[8:])) }
func fold(x f16) f8      { return x.GetLo().Add(x.GetHi()) }

// sum4 sums the lanes of each of four vectors.
func sum4(a, b, c, d f8) f4 {
	s := a.AddPairsGrouped(b).AddPairsGrouped(c.AddPairsGrouped(d))
	return s.GetLo().Add(s.GetHi())
}

// put4 stores four sums, or adds them to the existing values.
func put4(out []float32, sums f4, add bool) {
	to := (*[4]float32)(out)
	if add {
		sums = sums.Add(archsimd.LoadFloat32x4(to))
	}
	sums.Store(to)
}

//go:norace
func dot8(a, b []float32) float32 {
	va := whole(a)
	vb := whole(b)[:len(va)]
	var lo, hi f8
	for i := range va {
		lo = low(&va[i]).MulAdd(low(&vb[i]), lo)
		hi = high(&va[i]).MulAdd(high(&vb[i]), hi)
	}
	var sums [4]float32
	h := lo.Add(hi)
	sum4(h, h, h, h).Store(&sums)
	archsimd.ClearAVXUpperBits()
	done := 16 * len(va)
	return rest(sums[0], a[done:], b[done:])
}

// four holds the vectors of four rows of weights.
type four [4][]sixteen

//go:norace
func fourRows(w *matrix, j int) four {
	return four{whole(w.row(j)), whole(w.row(j + 1)), whole(w.row(j + 2)), whole(w.row(j + 3))}
}

// multiply16 is multiply with sixteen lanes: two rows of x against four of w at a time.
//
//go:norace
func multiply16(out, x, w *matrix, add bool) {
	if x.cols <= narrowCols && x.cols%16 == 0 && w.stride == w.cols {
		multiplyNarrow16(out, x, w, add)
		return
	}
	j := 0
	for ; j+4 <= w.rows; j += 4 {
		rows, i := fourRows(w, j), 0
		for ; i+2 <= x.rows; i += 2 {
			s, t := twoByFour16(whole(x.row(i)), whole(x.row(i+1)), &rows)
			put4(out.data[i*out.stride+j:], s, add)
			put4(out.data[(i+1)*out.stride+j:], t, add)
		}
		if i < x.rows {
			put4(out.data[i*out.stride+j:], oneByFour16(whole(x.row(i)), &rows), add)
		}
	}
	finish(out, x, w, j, add)
}

// narrowCols is the maximum number of columns for which one row of x at a time is faster, since its
// vectors stay in registers.
const narrowCols = 64

// multiplyNarrow16 is multiply16 for rows of a few whole vectors with the rows of w adjacent, as in
// the expansion of an adapter.
//
//go:norace
func multiplyNarrow16(out, x, w *matrix, add bool) {
	vectors, four := whole(w.data[:w.rows*w.cols]), w.rows&^3
	for i := range x.rows {
		narrowRow16(out.row(i)[:four], whole(x.row(i)), vectors, add)
	}
	finish(out, x, w, four, add)
}

//go:norace
func narrowRow16(out []float32, x, w []sixteen, add bool) {
	for ; len(out) >= 4; out, w = out[4:], w[4*len(x):] {
		w0, w1, w2, w3 := w[:len(x)], w[len(x):][:len(x)], w[2*len(x):][:len(x)], w[3*len(x):][:len(x)]
		var s0, s1, s2, s3 f16
		for i := range x {
			a := all(&x[i])
			s0, s1 = all(&w0[i]).MulAdd(a, s0), all(&w1[i]).MulAdd(a, s1)
			s2, s3 = all(&w2[i]).MulAdd(a, s2), all(&w3[i]).MulAdd(a, s3)
		}
		put4(out, sum4(fold(s0), fold(s1), fold(s2), fold(s3)), add)
	}
}

type eight = [8]float32

// multiplyEight is multiply for rows of half a vector: an inner product equals that of a vector
// whose other half is 0.
//
//go:norace
func multiplyEight(out, x, w *matrix, add bool) {
	four := w.rows &^ 3
	for i := range x.rows {
		a := archsimd.LoadFloat32x8((*eight)(x.row(i)))
		to, from := out.row(i), w.data[:8*w.rows]
		for ; len(to) >= 4; to, from = to[4:], from[32:] {
			b := (*[4]eight)(unsafe.Pointer((*[32]float32)(from)))
			put4(to, sum4(
				archsimd.LoadFloat32x8(&b[0]).Mul(a), archsimd.LoadFloat32x8(&b[1]).Mul(a),
				archsimd.LoadFloat32x8(&b[2]).Mul(a), archsimd.LoadFloat32x8(&b[3]).Mul(a),
			), add)
		}
	}
	archsimd.ClearAVXUpperBits()
	for j := four; j < w.rows; j++ {
		for i := range x.rows {
			sum := eightPlain((*eight)(x.row(i)), (*eight)(w.row(j)))
			if add {
				sum += out.row(i)[j]
			}
			out.row(i)[j] = sum
		}
	}
}

// eightPlain computes one inner product of multiplyEight, with the same bits. The conversion to
// float32 rounds each product, so it cannot be fused with an addition.
func eightPlain(a, b *eight) float32 {
	p := func(i int) float32 { return float32(a[i] * b[i]) }
	return ((p(0) + p(1)) + (p(2) + p(3))) + ((p(4) + p(5)) + (p(6) + p(7)))
}

// twoByFour16 returns the inner products of x and of y with each row of w. That many sums fit into
// the registers.
//
//go:norace
func twoByFour16(x, y []sixteen, w *four) (s, t f4) {
	y = y[:len(x)]
	w0, w1, w2, w3 := w[0][:len(x)], w[1][:len(x)], w[2][:len(x)], w[3][:len(x)]
	var s0, s1, s2, s3, t0, t1, t2, t3 f16
	for i := range x {
		a, b := all(&x[i]), all(&y[i])
		v := all(&w0[i])
		s0, t0 = v.MulAdd(a, s0), v.MulAdd(b, t0)
		v = all(&w1[i])
		s1, t1 = v.MulAdd(a, s1), v.MulAdd(b, t1)
		v = all(&w2[i])
		s2, t2 = v.MulAdd(a, s2), v.MulAdd(b, t2)
		v = all(&w3[i])
		s3, t3 = v.MulAdd(a, s3), v.MulAdd(b, t3)
	}
	return sum4(fold(s0), fold(s1), fold(s2), fold(s3)), sum4(fold(t0), fold(t1), fold(t2), fold(t3))
}

//go:norace
func oneByFour16(x []sixteen, w *four) f4 {
	w0, w1, w2, w3 := w[0][:len(x)], w[1][:len(x)], w[2][:len(x)], w[3][:len(x)]
	var s0, s1, s2, s3 f16
	for i := range x {
		a := all(&x[i])
		s0, s1 = all(&w0[i]).MulAdd(a, s0), all(&w1[i]).MulAdd(a, s1)
		s2, s3 = all(&w2[i]).MulAdd(a, s2), all(&w3[i]).MulAdd(a, s3)
	}
	return sum4(fold(s0), fold(s1), fold(s2), fold(s3))
}

// multiply8 is multiply with eight lanes: a row of x against four of w at a time.
//
//go:norace
func multiply8(out, x, w *matrix, add bool) {
	j := 0
	for ; j+4 <= w.rows; j += 4 {
		rows := fourRows(w, j)
		for i := range x.rows {
			put4(out.data[i*out.stride+j:], oneByFour8(whole(x.row(i)), &rows), add)
		}
	}
	finish(out, x, w, j, add)
}

//go:norace
func oneByFour8(x []sixteen, w *four) f4 {
	w0, w1, w2, w3 := w[0][:len(x)], w[1][:len(x)], w[2][:len(x)], w[3][:len(x)]
	var s0, s1, s2, s3, t0, t1, t2, t3 f8
	for i := range x {
		a, b := low(&x[i]), high(&x[i])
		s0, t0 = low(&w0[i]).MulAdd(a, s0), high(&w0[i]).MulAdd(b, t0)
		s1, t1 = low(&w1[i]).MulAdd(a, s1), high(&w1[i]).MulAdd(b, t1)
		s2, t2 = low(&w2[i]).MulAdd(a, s2), high(&w2[i]).MulAdd(b, t2)
		s3, t3 = low(&w3[i]).MulAdd(a, s3), high(&w3[i]).MulAdd(b, t3)
	}
	return sum4(s0.Add(t0), s1.Add(t1), s2.Add(t2), s3.Add(t3))
}

// finish computes the columns from j on, fewer than four, and adds the products that do not fill a
// vector.
//
//go:norace
func finish(out, x, w *matrix, j int, add bool) {
	archsimd.ClearAVXUpperBits()
	done := x.cols / 16 * 16
	for ; j < w.rows; j++ {
		for i := range x.rows {
			sum := dot8(x.row(i)[:done], w.row(j)[:done])
			if add {
				sum += out.row(i)[j]
			}
			out.row(i)[j] = sum
		}
	}
	if done == x.cols {
		return
	}
	for i := range x.rows {
		for j := range w.rows {
			out.row(i)[j] = rest(out.row(i)[j], x.row(i)[done:], w.row(j)[done:])
		}
	}
}

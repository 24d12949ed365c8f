package kernels

import "math"

// dotPlain computes the inner product in four interleaved sums.
//
//go:norace
func dotPlain(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	return rest((s0+s2)+(s1+s3), a, b)
}

// rest adds the products that do not fill a vector.
//
//go:norace
func rest(sum float32, a, b []float32) float32 {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

//go:norace
func multiplyPlain(out, x, w *matrix, add bool) {
	for j := range w.rows {
		for i := range x.rows {
			sum := dotPlain(x.row(i), w.row(j))
			if add {
				sum += out.row(i)[j]
			}
			out.row(i)[j] = sum
		}
	}
}

//go:norace
func weighPlain(y, p, v []float32, stride int) {
	for i, a := range p {
		for j, x := range v[i*stride:][:len(y)] {
			y[j] += a * x
		}
	}
}

//go:norace
func scalePlain(y, x, w []float32, s float32) {
	for i := range y {
		y[i] = x[i] * s * w[i]
	}
}

//go:norace
func siluMulPlain(out, gate, up []float32) {
	for i, g := range gate {
		out[i] = g / (1 + expPlain(-g)) * up[i]
	}
}

//go:norace
func softmaxPlain(x []float32) (sum float32) {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	for i, v := range x {
		x[i] = expPlain(v - top)
		sum += x[i]
	}
	return sum
}

// The constants of eˣ = 2ⁿ·eʳ with n = round(x/ln2) and |r| ≤ ln2/2, where eʳ is its Taylor
// polynomial of degree 6: the relative error is below 1e-6. x is clamped to the range in which 2ⁿ
// is a normal number, so no result is 0 or infinite. NaN is propagated.
const (
	expMin, expMax = -87.33, 88.37
	log2e          = 1.4426950408889634
	ln2hi, ln2lo   = 0.693359375, -2.12194440e-4
)

var expTerms = [...]float32{1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1}

func expPlain(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, expMin), expMax)
	n := float32(math.RoundToEven(float64(x * log2e)))
	r := x - n*ln2hi - n*ln2lo
	p := expTerms[0]
	for _, term := range expTerms[1:] {
		p = p*r + term
	}
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

//go:norace
func widenF16Plain(out []float32, in []uint16) {
	for i, h := range in {
		out[i] = F16ToF32(h)
	}
}

//go:norace
func widenBF16Plain(out []float32, in []uint16) {
	for i, h := range in {
		out[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// F16ToF32 converts an IEEE 754 binary16.
//
//go:norace
//go:nocheckptr
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

package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/x448/float16"
)

// TestVectorFormsAgree: both vector lengths compute the same bits.
func TestVectorFormsAgree(t *testing.T) {
	if best() < avx512 {
		t.Skip("this processor or build has no vectors of sixteen")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		m, n, k := 1+r.IntN(5), 1+r.IntN(9), 1+r.IntN(200)
		x, w := dense(normal(r, m*k), m, k), dense(normal(r, n*k), n, k)
		product := func(l level) []float32 {
			defer Use(l)()
			out := dense(make([]float32, m*n), m, n)
			multiply(out, x, w, false)
			return out.data
		}
		if got, want := product(avx512), product(avx2); !slices.Equal(got, want) {
			t.Fatalf("%dx%dx%d: %v and %v", m, n, k, got, want)
		}
	}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// TestWiden widens all 16-bit numbers in each variant and compares the results with those of a
// library.
func TestWiden(t *testing.T) {
	in := make([]uint16, 1<<16-1) // not a whole number of vectors
	for i := range in {
		in[i] = uint16(i + 1)
	}
	f16, bf16 := make([]float32, len(in)), make([]float32, len(in))
	for name, level := range Levels() {
		restore := Use(level)
		widenF16(f16, in)
		widenBF16(bf16, in)
		restore()
		for i, h := range in {
			if want := float16.Frombits(h).Float32(); !equal(f16[i], want) {
				t.Fatalf("%s: F16 %#04x is %v, want %v", name, h, f16[i], want)
			}
			if want := math.Float32frombits(uint32(h) << 16); !equal(bf16[i], want) {
				t.Fatalf("%s: BF16 %#04x is %v, want %v", name, h, bf16[i], want)
			}
		}
	}
}

// equal distinguishes zeros and treats all NaN as equal.
func equal(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// TestSoftmaxRange: weights and their sum are correct from very small to very large scores.
func TestSoftmaxRange(t *testing.T) {
	inf := float32(math.Inf(-1))
	for name, level := range Levels() {
		restore := Use(level)
		for _, scores := range [][]float32{
			{0, -1, -20, -80, -200, -1e30, inf, 0.5}, {1e30, 1e30, 0, 0, 0, 0, 0, 0},
			{-1e5, -1e5 - 1, inf, inf, inf, inf, inf, inf},
		} {
			got := slices.Clone(scores)
			sum, want := float64(softmax(got)), 0.0
			for i, s := range scores {
				e := math.Exp(float64(s) - float64(slices.Max(scores)))
				want += e
				if math.Abs(float64(got[i])-e) > 2e-6*e+2e-38 {
					t.Errorf("%s: weight of %v in %v is %v, want %v", name, s, scores, got[i], e)
				}
			}
			if math.Abs(sum-want) > 2e-6*want {
				t.Errorf("%s: sum of %v is %v, want %v", name, scores, sum, want)
			}
		}
		restore()
	}
}

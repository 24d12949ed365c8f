package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"troupe/cuda"
)

// TestNarrow compares rounding with a library, at every F16, on both sides of it, halfway to the
// next, and at random.
func TestNarrow(t *testing.T) {
	check := func(x float32) {
		if got, want := narrow(x, cuda.F16), float16.Fromfloat32(x).Bits(); got != want && x == x {
			t.Fatalf("%v is %#04x, want %#04x", x, got, want)
		}
	}
	for h := range 1 << 16 {
		x := float16.Frombits(uint16(h)).Float32()
		bits := math.Float32bits(x)
		for _, near := range []uint32{bits, bits + 1, bits - 1, bits + 1<<12, bits + 1<<12 + 1, bits + 1<<12 - 1} {
			check(math.Float32frombits(near))
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		bits := r.Uint32()
		x := math.Float32frombits(bits)
		check(x)
		wide := math.Float32frombits(uint32(narrow(x, cuda.BF16)) << 16)
		if d := math.Abs(float64(wide) - float64(x)); d > math.Abs(float64(x))/256+0x1p-133 &&
			!math.IsInf(float64(wide), 0) ||
			x == x != (wide == wide) {
			t.Fatalf("%v is %v in BF16", x, wide)
		}
	}
	if h := narrow(float32(math.NaN()), cuda.F16); !math.IsNaN(float64(float16.Frombits(h).Float32())) {
		t.Errorf("NaN is %#04x", h)
	}
}

package cudatest

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// bench runs kernels on arrays of its own.
type bench struct {
	*testing.T
	d cuda.Device
	s cuda.Stream
	r *rand.Rand
}

// newBench skips the test on a device without kernels.
func newBench(t *testing.T, d cuda.Device) *bench {
	t.Helper()
	b := &bench{t, d, stream(t, d), rand.New(rand.NewPCG(1, 2))}
	probe := put(b, []float32{1})
	err := b.s.Launch(kernels.SiluMul{Out: probe, Gate: probe, Up: probe, N: 1})
	skipWithout(t, err)
	if err = errors.Join(err, b.s.Sync()); err != nil {
		skipWithout(t, err)
		t.Fatal(err)
	}
	return b
}

func put[E any](b *bench, values []E) cuda.Ptr {
	b.Helper()
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(values[0])))
	host := must[cuda.HostMemory](b.T)(b.d.AllocHost(int64(len(raw))))
	copy(host.Bytes(), raw)
	p := must[cuda.Ptr](b.T)(b.d.Alloc(int64(len(raw))))
	if err := b.s.CopyIn(p, host.Bytes()); err != nil {
		b.Fatal(err)
	}
	if err := b.s.Sync(); err != nil {
		b.Fatal(err)
	}
	_ = host.Free()
	return p
}

func (b *bench) get(p cuda.Ptr, n int) []float32 {
	b.Helper()
	host := must[cuda.HostMemory](b.T)(b.d.AllocHost(int64(4 * n)))
	if err := b.s.CopyOut(host.Bytes(), p); err != nil {
		b.Fatal(err)
	}
	if err := b.s.Sync(); err != nil {
		b.Fatal(err)
	}
	out := slices.Clone(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(host.Bytes()))), n))
	_ = host.Free()
	return out
}

func (b *bench) free(p cuda.Ptr) {
	b.Helper()
	if err := b.d.Free(p); err != nil {
		b.Error(err)
	}
}

func (b *bench) random(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(b.r.NormFloat64())
	}
	return x
}

func (b *bench) launch(op cuda.Op) {
	b.Helper()
	if err := b.s.Launch(op); err != nil {
		b.Fatal(err)
	}
}

// weights returns random elements of a type and the values that they represent.
func (b *bench) weights(t cuda.DType, n int) (at cuda.Ptr, values []float64) {
	b.Helper()
	values = make([]float64, n)
	if t == cuda.F32 {
		x := b.random(n)
		for i, v := range x {
			values[i] = float64(v)
		}
		return put(b, x), values
	}
	raw := make([]uint16, n)
	for i := range raw {
		raw[i], values[i] = half(t, b.r.IntN(2), b.r.IntN(17), b.r.IntN(1024))
	}
	return put(b, raw), values
}

// half assembles a 16-bit number: an F16 with the exponent and fraction, or a similar BF16.
func half(t cuda.DType, sign, exponent, fraction int) (raw uint16, value float64) {
	if t == cuda.BF16 {
		raw = uint16(sign<<15 | (exponent+112)<<7 | fraction>>3)
		return raw, float64(math.Float32frombits(uint32(raw) << 16))
	}
	raw, value = uint16(sign<<15|exponent<<10|fraction), math.Ldexp(float64(1024+fraction), exponent-25)
	if exponent == 0 {
		value = math.Ldexp(float64(fraction), -24)
	}
	if sign == 1 {
		value = -value
	}
	return raw, value
}

// near compares with float64; the tolerance grows with the length of the sums.
func (b *bench) near(what string, got []float32, want []float64, sum int) {
	b.Helper()
	for i, w := range want {
		if diff := math.Abs(float64(got[i]) - w); !(diff <= 1e-5*math.Sqrt(float64(sum))*(1+math.Abs(w))) {
			b.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

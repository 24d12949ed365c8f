package cudatest

import (
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

func newBench(t *testing.T, d cuda.Device) *bench {
	return &bench{t, d, stream(t, d), rand.New(rand.NewPCG(1, 2))}
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

// near compares with float64; tolerance grows with the length of the sums.
func (b *bench) near(what string, got []float32, want []float64, sum int) {
	b.Helper()
	for i, w := range want {
		if diff := math.Abs(float64(got[i]) - w); !(diff <= 1e-5*math.Sqrt(float64(sum))*(1+math.Abs(w))) {
			b.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

func kernelsAgainstFloat64(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	for _, k := range []int{1, 10, 16, 33, 172} {
		b.matMul(3, 9, k)
		b.rmsNorm(3, k)
		b.siluMul(k)
	}
	b.matMul(1, 64, 192)
	for _, shape := range []struct{ heads, kvHeads, dim, window int }{{4, 4, 8, 0}, {6, 2, 32, 0}, {4, 1, 10, 5}, {2, 2, 18, 3}} {
		b.attention(shape.heads, shape.kvHeads, shape.dim, shape.window)
		b.rope(shape.heads, shape.dim)
	}
}

func (b *bench) matMul(m, n, k int) {
	b.Helper()
	in, w, bias, out := b.random(m*k), b.random(n*k), b.random(n), b.random(m*n)
	want := make([]float64, m*n)
	for i := range want {
		want[i] = float64(out[i]) + float64(bias[i%n])
		for j := range k {
			want[i] += float64(in[i/n*k+j]) * float64(w[i%n*k+j])
		}
	}
	p := put(b, out)
	b.launch(kernels.MatMul{
		Out: p, In: put(b, in), Weight: put(b, w), Bias: put(b, bias), M: int32(m), N: int32(n), K: int32(k), Accumulate: true,
	})
	b.near("matmul", b.get(p, m*n), want, k)
	half := make([]uint16, n*k) // BF16: the upper half of F32
	for i, v := range w {
		half[i] = uint16(math.Float32bits(v) >> 16)
	}
	for i := range want {
		want[i] = 0
		for j := range k {
			want[i] += float64(in[i/n*k+j]) * float64(math.Float32frombits(uint32(half[i%n*k+j])<<16))
		}
	}
	b.launch(kernels.MatMul{Out: p, In: put(b, in), Weight: put(b, half), M: int32(m), N: int32(n), K: int32(k), DType: cuda.BF16})
	b.near("matmul of BF16", b.get(p, m*n), want, k)
}

func (b *bench) rmsNorm(n, dim int) {
	b.Helper()
	in, w := b.random(n*dim), b.random(dim)
	want := make([]float64, n*dim)
	for i := range n {
		var sum float64
		for _, v := range in[i*dim : (i+1)*dim] {
			sum += float64(v) * float64(v)
		}
		for j := range dim {
			want[i*dim+j] = float64(in[i*dim+j]) / math.Sqrt(sum/float64(dim)+1e-5) * float64(w[j])
		}
	}
	p := put(b, in)
	b.launch(kernels.RMSNorm{Out: p, In: p, Weight: put(b, w), N: int32(n), Dim: int32(dim), Eps: 1e-5})
	b.near("rmsnorm", b.get(p, n*dim), want, dim)
}

func (b *bench) siluMul(n int) {
	b.Helper()
	gate, up := b.random(n), b.random(n)
	gate[0] = -200 // far where e⁻ˣ overflows
	want := make([]float64, n)
	for i := range want {
		want[i] = float64(gate[i]) / (1 + math.Exp(-float64(gate[i]))) * float64(up[i])
	}
	p := put(b, gate)
	b.launch(kernels.SiluMul{Out: p, Gate: p, Up: put(b, up), N: int32(n)})
	b.near("silu", b.get(p, n), want, 1)
}

func (b *bench) rope(heads, dim int) {
	b.Helper()
	const n = 3
	x, positions, freq := b.random(n*heads*dim), []int32{0, 5, 90}, b.random(dim/2)
	want := make([]float64, len(x))
	for i := range x {
		row, j := i/(heads*dim), i%dim
		sin, cos := math.Sincos(float64(positions[row]) * float64(freq[j%(dim/2)]))
		if j < dim/2 {
			want[i] = float64(x[i])*cos - float64(x[i+dim/2])*sin
		} else {
			want[i] = float64(x[i])*cos + float64(x[i-dim/2])*sin
		}
	}
	p := put(b, x)
	b.launch(kernels.Rope{X: p, Positions: put(b, positions), InvFreq: put(b, freq), N: n, Heads: int32(heads), HeadDim: int32(dim)})
	b.near("rope", b.get(p, len(x)), want, 1)
}

// attention stores two sequences in scrambled blocks and looks from several positions.
func (b *bench) attention(heads, kvHeads, dim, window int) {
	b.Helper()
	const size, blocks, width = 4, 12, 5
	lengths := []int{17, 6}
	order := b.r.Perm(blocks)
	tables := make([]int32, 2*width)
	for i := range tables {
		tables[i] = int32(order[i])
	}
	kv := kvHeads * dim
	layout := kernels.KVLayout{
		Arena: put(b, b.random(blocks*2*size*kv)), BlockBytes: int64(2 * size * kv * 4), ValueOffset: int64(size * kv * 4),
		Blocks: blocks, BlockTokens: size, KVHeads: int32(kvHeads), HeadDim: int32(dim),
	}
	keys, values := make([][]float32, 2), make([][]float32, 2)
	for s, n := range lengths {
		keys[s], values[s] = b.random(n*kv), b.random(n*kv)
		slots := make([]int32, n)
		for p := range n {
			slots[p] = tables[s*width+p/size]*size + int32(p%size)
		}
		b.launch(kernels.StoreKV{K: put(b, keys[s]), V: put(b, values[s]), Slots: put(b, slots), N: int32(n), KV: layout})
	}
	rows, positions := []int32{0, 1, 0, 1}, []int32{16, 5, 3, 0}
	q := b.random(len(rows) * heads * dim)
	out := put(b, make([]float32, len(q)))
	b.launch(kernels.Attention{
		Out: out, Q: put(b, q), Rows: put(b, rows), Positions: put(b, positions), Tables: put(b, tables), TableWidth: width,
		N: int32(len(rows)), Heads: int32(heads), Window: int32(window), Scale: 0.3, KV: layout,
	})
	want := make([]float64, len(q))
	for i := range rows {
		for h := range heads {
			first, g := 0, h/(heads/kvHeads)*dim
			if window > 0 {
				first = max(0, int(positions[i])-window+1)
			}
			var total float64
			weights := make([]float64, positions[i]+1)
			for p := first; p <= int(positions[i]); p++ {
				var score float64
				for j := range dim {
					score += float64(q[(i*heads+h)*dim+j]) * float64(keys[rows[i]][p*kv+g+j])
				}
				weights[p] = math.Exp(0.3 * score)
				total += weights[p]
			}
			for p := first; p <= int(positions[i]); p++ {
				for j := range dim {
					want[(i*heads+h)*dim+j] += weights[p] / total * float64(values[rows[i]][p*kv+g+j])
				}
			}
		}
	}
	b.near("attention", b.get(out, len(q)), want, 20)
}

// rowsAlone: a row of a product is the same, bit by bit, alone and in any batch, at any place in it.
func rowsAlone(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	const n, k = 300, 180
	w := put(b, b.random(n*k))
	row := b.random(k)
	one := put(b, make([]float32, n))
	b.launch(kernels.MatMul{Out: one, In: put(b, row), Weight: w, M: 1, N: n, K: k})
	want := b.get(one, n)
	for _, m := range []int{2, 3, 4, 7, 8, 16, 33} {
		at := b.r.IntN(m)
		in := b.random(m * k)
		copy(in[at*k:], row)
		out := put(b, make([]float32, m*n))
		b.launch(kernels.MatMul{Out: out, In: put(b, in), Weight: w, M: int32(m), N: n, K: k})
		if got := b.get(out, m*n)[at*n : (at+1)*n]; !slices.Equal(got, want) {
			t.Fatalf("row %d of %d differs from the row alone", at, m)
		}
	}
}

package gpucheck

import (
	"errors"
	"slices"
	"testing"
	"time"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/kernels"
)

// meter times work on one stream of a device.
type meter struct {
	*testing.T
	d cuda.Device
	s cuda.Stream
	// full selects the sizes of a model with eight billion parameters, for a GPU. Otherwise sizes
	// are small and only check that everything runs.
	full bool
}

func newMeter(t *testing.T) *meter {
	t.Helper()
	return meterOf(t, open(t))
}

// meterOf returns a meter on a device. It closes the device after the test.
func meterOf(t *testing.T, d cuda.Device) *meter {
	t.Helper()
	s, err := d.NewStream("measure")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return &meter{t, d, s, !d.Info().Simulated}
}

func (m *meter) alloc(bytes int64) cuda.Ptr {
	m.Helper()
	p, err := m.d.Alloc(bytes)
	if err != nil {
		m.Fatal(err)
	}
	return p
}

func (m *meter) host(bytes int64) []byte {
	m.Helper()
	h, err := m.d.AllocHost(bytes)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = h.Free() })
	return h.Bytes()
}

func upload[E any](m *meter, values []E) cuda.Ptr {
	m.Helper()
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
	staging, at := m.host(int64(len(raw))), m.alloc(int64(len(raw)))
	copy(staging, raw)
	if err := errors.Join(m.s.CopyIn(at, staging), m.s.Sync()); err != nil {
		m.Fatal(err)
	}
	return at
}

// time returns the median over several rounds of the time per call of work.
func (m *meter) time(work func() error) time.Duration {
	m.Helper()
	rounds, calls := 3, 2
	if m.full {
		rounds, calls = 21, 20
	}
	var times []time.Duration
	for range rounds + 1 { // the first round warms up
		start := time.Now()
		var err error
		for range calls {
			err = errors.Join(err, work())
		}
		if err = errors.Join(err, m.s.Sync()); err != nil {
			m.Fatal(err)
		}
		times = append(times, time.Since(start)/time.Duration(calls))
	}
	times = times[1:]
	slices.Sort(times)
	return times[len(times)/2]
}

func rate(amount float64, d time.Duration) float64 { return amount / d.Seconds() / 1e9 }

// pick returns big on a GPU and small otherwise.
func (m *meter) pick(big, small int) int {
	if m.full {
		return big
	}
	return small
}

func TestMeasureCopies(t *testing.T) {
	m := newMeter(t)
	row(
		t,
		"\n## Copies, GB/s\n\n| bytes | to the device | from it | within it (read and write) |\n| --- | --- | --- "+
			"| --- |",
	)
	for _, size := range []int{64 << 10, 1280 << 10, m.pick(256<<20, 8<<20)} {
		n := int64(size)
		at, to, memory := m.alloc(n), m.alloc(n), m.host(n)
		row(t, "| %d | %.2f | %.2f | %.2f |", n,
			rate(float64(n), m.time(func() error { return m.s.CopyIn(at, memory) })),
			rate(float64(n), m.time(func() error { return m.s.CopyOut(memory, at) })),
			rate(2*float64(n), m.time(func() error { return m.s.Copy(to, at, n) })))
	}
}

// TestMeasurePeers copies between the first two GPUs.
func TestMeasurePeers(t *testing.T) {
	if driver.Count() == 1 {
		t.Skip("there is one GPU")
	}
	m, there := newMeter(t), meterOf(t, openAt(t, 1, *products))
	s, err := cuda.As[cuda.PeerCopier](m.s)
	if err != nil {
		t.Skip(err)
	}
	direct := "through the host"
	if p, err := cuda.As[cuda.Peers](m.d); err == nil && p.Reaches(there.d) {
		if direct = "directly"; p.EnablePeer(there.d) != nil {
			t.Error("a reachable peer could not be enabled")
		}
	}
	row(t, "\n## Copies from the second GPU to the first, %s, GB/s\n\n| bytes | |\n| --- | --- |", direct)
	for _, size := range []int{64 << 10, 1280 << 10, m.pick(256<<20, 8<<20)} {
		n := int64(size)
		to, from := m.alloc(n), there.alloc(n)
		row(t, "| %d | %.2f |", n, rate(float64(n), m.time(func() error { return s.CopyPeer(to, there.d, from, n) })))
	}
}

// TestMeasureCrossing measures the cost of giving a command to the driver.
func TestMeasureCrossing(t *testing.T) {
	cost, err := driver.CrossingCost()
	if err != nil {
		t.Skip(err)
	}
	row(
		t,
		"\n## Crossing into the driver\n\nA command in a list of 64, including the driver's part of the cheapest one: "+
			"%d ns (aim: under 20).",
		cost.Nanoseconds(),
	)
}

func TestMeasureMatMul(t *testing.T) {
	for name, value := range gemmBackends(t) {
		t.Run(name, func(t *testing.T) { measureMatMul(meterOf(t, openAt(t, 0, value)), name) })
	}
}

func measureMatMul(m *meter, by string) {
	n := m.pick(4096, 256)
	k := n
	row(
		m.T,
		"\n## GEMM with %d x %d weights of BF16, by %s\n\n| rows | microseconds | GB/s of weights | TFLOP/s |\n| "+
			"--- | --- | --- | --- |",
		n, k, by,
	)
	weights := m.alloc(int64(2 * n * k))
	for _, rows := range []int{1, 8, 16, 32, 64, 256, m.pick(2048, 256)} {
		op := kernels.MatMul{
			Out: m.alloc(int64(4 * rows * n)), In: m.alloc(int64(4 * rows * k)), Weight: weights,
			M: int32(rows), N: int32(n), K: int32(k), DType: cuda.BF16,
		}
		d := m.time(func() error { return m.s.Launch(op) })
		row(
			m.T, "| %d | %.1f | %.1f | %.3f |", rows, d.Seconds()*1e6, rate(float64(2*n*k), d),
			rate(2*float64(rows)*float64(n)*float64(k), d)/1e3,
		)
	}
}

func TestMeasureAttention(t *testing.T) {
	m := newMeter(t)
	kv := kernels.KVLayout{Blocks: int32(m.pick(8192, 256)), BlockTokens: 16, KVHeads: 8, HeadDim: 128}
	half := 4 * int64(kv.BlockTokens) * int64(kv.KVHeads*kv.HeadDim)
	kv.BlockBytes, kv.ValueOffset = 2*half, half
	kv.Arena = m.alloc(int64(kv.Blocks) * kv.BlockBytes)
	row(
		t,
		"\n## Attention of one layer, decode: 32 heads of 128, 8 of them in KV\n\n| sequences | positions | "+
			"microseconds | GB/s of keys and values |\n| --- | --- | --- | --- |",
	)
	for _, c := range [][2]int{{1, m.pick(4096, 256)}, {32, m.pick(4096, 64)}} {
		rows, positions, width := make([]int32, c[0]), make([]int32, c[0]), c[1]/16
		tables := make([]int32, c[0]*width)
		for i := range rows {
			rows[i], positions[i] = int32(i), int32(c[1]-1)
		}
		for i := range tables {
			tables[i] = int32(i) % kv.Blocks
		}
		op := kernels.Attention{
			Out: m.alloc(int64(4 * c[0] * 4096)), Q: m.alloc(int64(4 * c[0] * 4096)), Rows: upload(m, rows),
			Positions: upload(m, positions),
			Tables:    upload(m, tables), TableWidth: int32(width), N: int32(c[0]), Heads: 32, Scale: 0.1, KV: kv,
		}
		d := m.time(func() error { return m.s.Launch(op) })
		row(
			t, "| %d | %d | %.1f | %.1f |", c[0], c[1], d.Seconds()*1e6,
			rate(float64(c[0]*width)*float64(kv.BlockBytes), d),
		)
	}
}

func TestMeasureAdapters(t *testing.T) {
	m := newMeter(t)
	rows, count, rank, dim := 128, 40, 16, m.pick(4096, 1024)
	matrix := int64(rank*dim) * cuda.BF16.Bytes()
	pages, offsets, ranks := make([]cuda.Ptr, count), make([]int64, count), make([]int32, count)
	scales, of := make([]float32, count), make([]int32, rows)
	arena := m.alloc(int64(count) * kernels.PageBytes)
	for i := range count {
		pages[i], ranks[i], scales[i] = arena.Offset(int64(i)*kernels.PageBytes), int32(rank), 1
	}
	for i := range of {
		of[i] = int32(i * count / rows) // rows of one adapter are adjacent, as in the scheduler's batches
	}
	l := kernels.LoRA{
		Rows: upload(m, of), Pages: upload(m, pages), Offsets: upload(m, offsets), Ranks: upload(m, ranks),
		Scales:   upload(m, scales),
		Adapters: int32(count), PageWidth: 1, MaxRank: int32(rank), DType: cuda.BF16,
	}
	mid, in, out := m.alloc(int64(4*rows*rank)), m.alloc(int64(4*rows*dim)), m.alloc(int64(4*rows*dim))
	d := m.time(func() error {
		return errors.Join(
			m.s.Launch(kernels.LoRAShrink{Mid: mid, In: in, N: int32(rows), K: int32(dim), A: l}),
			m.s.Launch(kernels.LoRAExpand{Out: out, Mid: mid, N: int32(rows), Dim: int32(dim), B: l}))
	})
	size := matrix * int64(count)
	from, to := m.alloc(size), m.alloc(size)
	// A copy of all A reads and writes as many bytes as reading all A and B.
	floor := m.time(func() error { return m.s.Copy(to, from, size) })
	row(t, "\n## Adapters\n\n%d adapters of rank %d in a batch of %d, one projection of %d by %d: %.1f µs; their "+
		"bytes, moved by a copy: %.1f µs; ratio %.2f (aim: 1.3).",
		count, rank, rows, dim, dim, d.Seconds()*1e6, floor.Seconds()*1e6, d.Seconds()/floor.Seconds())
}

// TestMeasureModel compares decode steps with reading all weights once per step, at the bandwidth
// of a copy within the device.
func TestMeasureModel(t *testing.T) {
	m := newMeter(t)
	size := int64(m.pick(256<<20, 8<<20))
	from, to := m.alloc(size), m.alloc(size)
	bandwidth := rate(float64(2*size), m.time(func() error { return m.s.Copy(to, from, size) }))
	e, facts := loadWithInfo(t)
	row(
		t,
		"\n## Decode of the shipped model\n\nThe weights have %d bytes; a copy within the device moves %.1f GB/s.\n\n"+
			"| sequences | tokens per second | weights read, over that bandwidth (aim for a large model: 0.8) |\n"+
			"| --- | --- | --- |",
		facts.WeightBytes,
		bandwidth,
	)
	for _, n := range []int{1, 16} {
		const tokens = 64
		prompts, counts := make([][]uint32, n), make([]int, n)
		for i := range prompts {
			prompts[i], counts[i] = []uint32{uint32(3 + i)}, tokens
		}
		generate(t, e, prompts, counts) // warms up
		start := time.Now()
		generate(t, e, prompts, counts)
		took := time.Since(start)
		row(
			t, "| %d | %.0f | %.2f |", n, float64(n*tokens)/took.Seconds(),
			rate(float64(facts.WeightBytes)*tokens, took)/bandwidth,
		)
	}
}

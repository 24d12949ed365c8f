package host_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	required := []string{"kernels", "graphs of kernels", "batches", "graphs", "bad indices", "partitions"}
	if runtime.GOOS == "linux" {
		required = append(required, "virtual memory")
	}
	cudatest.Run(t, func(t *testing.T) cuda.Device { return open(t, host.Config{Workers: 5}) }, required...)
	cudatest.BadIndices(t, func(t *testing.T) cuda.Device { return open(t, host.Config{}) })
	cudatest.BadArguments(t, func(t *testing.T) cuda.Device { return open(t, host.Config{}) })
	t.Run("peers", func(t *testing.T) { cudatest.Peers(t, open(t, host.Config{}), open(t, host.Config{Index: 1})) })
	t.Run("shared host memory", func(t *testing.T) {
		cudatest.SharedHost(t, open(t, host.Config{}), open(t, host.Config{Index: 1}))
	})
}

func open(t testing.TB, cfg host.Config) cuda.Device {
	t.Helper()
	cfg.MemoryBytes = 64 << 20
	d, err := host.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func newStream(t testing.TB, d cuda.Device) cuda.Stream {
	t.Helper()
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func alloc(t testing.TB, d cuda.Device, floats int) cuda.Ptr {
	t.Helper()
	p, err := d.Alloc(int64(4 * floats))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func isFault(t *testing.T, err error, op string) {
	t.Helper()
	if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Op != op {
		t.Errorf("got %v, want a fault in %s", err, op)
	}
}

// gate lets a test hold back the device's work.
type gate struct{ reached, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) inject(op string) error {
	if op == "copy" {
		g.reached <- struct{}{}
		<-g.open
	}
	return nil
}

// TestInjectedFault: an injected fault behaves like any other. It affects the work after it and
// callers that wait for that, but not earlier work.
func TestInjectedFault(t *testing.T) {
	d := open(t, host.Config{Inject: func(op string) error {
		if op == "copy" {
			return errors.New("uncorrectable ECC error")
		}
		return nil
	}})
	s, waiting, other := newStream(t, d), newStream(t, d), newStream(t, d)
	p := alloc(t, d, 8)
	silu := kernels.SiluMul{Out: p, Gate: p, Up: p, N: 8}
	before, err := s.Record()
	if err = errors.Join(err, s.Copy(p, p, 8)); err != nil {
		t.Fatal(err)
	}
	isFault(t, s.Sync(), "copy")
	isFault(t, s.Launch(silu), "copy")
	if err := before.Sync(); err != nil {
		t.Errorf("an event before the fault: %v", err)
	}
	if err := errors.Join(other.Launch(silu), other.Sync()); err != nil {
		t.Errorf("another stream: %v", err)
	}
	if err := errors.Join(waiting.Wait(before), waiting.Launch(silu), waiting.Sync()); err != nil {
		t.Errorf("a wait for earlier work: %v", err)
	}
}

// TestFaultPropagates: work that waits for failed work fails, since its input is missing.
func TestFaultPropagates(t *testing.T) {
	g := newGate()
	d := open(t, host.Config{Inject: func(op string) error { return errors.Join(g.inject(op), errors.New("lost")) }})
	s, waiting := newStream(t, d), newStream(t, d)
	p := alloc(t, d, 8)
	if err := s.Copy(p, p, 8); err != nil {
		t.Fatal(err)
	}
	<-g.reached
	e, err := s.Record()
	if err = errors.Join(err, waiting.Wait(e)); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	isFault(t, e.Sync(), "copy")
	isFault(t, waiting.Sync(), "copy")
}

// TestFreeBeforeUse: work on memory that was freed meanwhile is a fault, on the device and on the
// host.
func TestFreeBeforeUse(t *testing.T) {
	g := newGate()
	d := open(t, host.Config{Inject: g.inject})
	kept, gone := alloc(t, d, 1<<20), alloc(t, d, 1<<20)
	memory, err := d.AllocHost(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	silu, copyIn := newStream(t, d), newStream(t, d)
	for _, s := range []cuda.Stream{silu, copyIn} { // block both streams
		if err := s.Copy(kept, kept, 8); err != nil {
			t.Fatal(err)
		}
		<-g.reached
	}
	err = errors.Join(
		silu.Launch(kernels.SiluMul{Out: gone, Gate: gone, Up: gone, N: 1 << 20}),
		copyIn.CopyIn(kept, memory.Bytes()),
	)
	if err = errors.Join(err, d.Free(gone), memory.Free()); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	isFault(t, silu.Sync(), "troupe_silu_mul")
	isFault(t, copyIn.Sync(), "copy in")
}

// TestFreeWhileInUse: memory is not freed while a kernel runs on it, whichever goroutine frees it.
func TestFreeWhileInUse(t *testing.T) {
	starts := make(chan struct{})
	d := open(t, host.Config{Inject: func(string) error { starts <- struct{}{}; return nil }})
	const n, k = 512, 512
	for i := range 20 {
		s := newStream(t, d)
		in, w, out := alloc(t, d, n*k), alloc(t, d, n*k), alloc(t, d, n*n)
		if err := s.Launch(kernels.MatMul{Out: out, In: in, Weight: w, M: n, N: n, K: k}); err != nil {
			t.Fatal(err)
		}
		<-starts
		for range i * 50 { // to hit different phases of the kernel
			runtime.Gosched()
		}
		if err := errors.Join(d.Free(w), d.Free(in), d.Free(out)); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			isFault(t, err, "troupe_matmul")
		}
	}
}

// TestFaultInPart: a fault in any part of a kernel is the kernel's fault.
func TestFaultInPart(t *testing.T) {
	d := open(t, host.Config{Workers: 4})
	const m, n, k = 64, 512, 192
	s := newStream(t, d)
	op := kernels.MatMul{Out: alloc(t, d, m*n), In: alloc(t, d, m*k), Weight: alloc(t, d, n*k-1), M: m, N: n, K: k}
	isFault(t, errors.Join(s.Launch(op), s.Sync()), op.Kernel())
}

// TestHostMemory: a stream copies only memory of AllocHost, like a GPU.
func TestHostMemory(t *testing.T) {
	d := open(t, host.Config{})
	p := alloc(t, d, 2)
	s := newStream(t, d)
	isFault(t, errors.Join(s.CopyIn(p, make([]byte, 8)), s.Sync()), "copy in")
	s = newStream(t, d)
	isFault(t, errors.Join(s.CopyOut(make([]byte, 8), p), s.Sync()), "copy out")
	s = newStream(t, d)
	if err := errors.Join(s.CopyIn(p, nil), s.Sync()); err != nil {
		t.Errorf("an empty copy: %v", err)
	}
}

// TestClose: closing a device closes its streams, and may be repeated.
func TestClose(t *testing.T) {
	d := open(t, host.Config{})
	s, p := newStream(t, d), alloc(t, d, 1)
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if s.Copy(p, p, 4) == nil {
		t.Error("a stream of a closed device accepts work")
	}
	if _, err := d.NewStream("late"); err == nil {
		t.Error("a closed device creates a stream")
	}
	if free, total := d.Memory(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
}

// TestPartsCoverAll: a product is the same for any number of workers.
func TestPartsCoverAll(t *testing.T) {
	const m, n, k = 40, 333, 100
	var want []byte
	for _, workers := range []int{1, 2, 5} {
		d := open(t, host.Config{Workers: workers})
		s := newStream(t, d)
		memory, err := d.AllocHost(4 * (m*k + n*k))
		if err != nil {
			t.Fatal(err)
		}
		for i := range memory.Bytes() {
			memory.Bytes()[i] = byte(i*i) &^ 0x40 // no large exponents
		}
		in, w, out := alloc(t, d, m*k), alloc(t, d, n*k), alloc(t, d, m*n)
		err = errors.Join(s.CopyIn(in, memory.Bytes()[:4*m*k]), s.CopyIn(w, memory.Bytes()[4*m*k:]),
			s.Launch(kernels.MatMul{Out: out, In: in, Weight: w, M: m, N: n, K: k}))
		result, errHost := d.AllocHost(4 * m * n)
		if err = errors.Join(err, errHost); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.CopyOut(result.Bytes(), out), s.Sync()); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = slices.Clone(result.Bytes())
		}
		if !slices.Equal(result.Bytes(), want) {
			t.Errorf("%d workers and one worker compute different results", workers)
		}
	}
}

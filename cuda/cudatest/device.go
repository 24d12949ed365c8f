package cudatest

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// Run runs the suite. Each test opens its own device, with at least 64 MiB of memory. Features that
// the device lacks are skipped, unless their test is named in required.
func Run(t *testing.T, open func(t *testing.T) cuda.Device, required ...string) {
	each(t, open, tests{
		"memory": memory, "copies": copies, "copies of any length": anyLength, "events": events, "faults": faults,
		"virtual memory": virtualMemory, "batches": batches, "graphs": graphs, "partitions": partitions,
		"properties":          properties,
		"shared memory":       sharedMemory,
		"two streams in turn": inTurn, "graphs of kernels": kernelGraphs,
	}, required...)
	Kernels(t, open, required...)
}

// Kernels runs the tests of the kernels' results.
func Kernels(t *testing.T, open func(t *testing.T) cuda.Device, required ...string) {
	each(t, open, tests{
		"kernels": kernelsAgainstFloat64, "NaN is propagated": propagatesNaN,
		"rows do not depend on their batch": rowsAlone,
	}, required...)
}

// BadIndices is for devices on which a kernel with a bad index affects only its own stream. On a
// GPU the device is lost for the process.
func BadIndices(t *testing.T, open func(t *testing.T) cuda.Device) {
	each(t, open, tests{"bad indices": badIndices})
}

// BadArguments is for devices that check the arguments of a launch.
func BadArguments(t *testing.T, open func(t *testing.T) cuda.Device) {
	each(t, open, tests{"bad arguments": badArguments})
}

type tests map[string]func(*testing.T, cuda.Device)

func each(t *testing.T, open func(t *testing.T) cuda.Device, all tests, required ...string) {
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			defer func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				if t.Skipped() && slices.Contains(required, name) {
					t.Error("skipped but required")
				}
			}()
			test(t, d)
		})
	}
}

// capability returns a capability of d, or skips the test.
func capability[C any](t *testing.T, d any) C {
	t.Helper()
	c, err := cuda.As[C](d)
	skipWithout(t, err)
	return c
}

// skipWithout skips the test if the error is errors.ErrUnsupported.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, cuda.ErrUnknownKernel) {
		t.Skip(err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func stream(t *testing.T, d cuda.Device) cuda.Stream {
	t.Helper()
	return must[cuda.Stream](t)(d.NewStream("test"))
}

func memory(t *testing.T, d cuda.Device) {
	free, total := d.Memory()
	exact := d.Info().Simulated // a GPU reserves some and allocates in pages
	if free > total || exact && free != total || total != d.Info().MemoryBytes {
		t.Fatalf("%d of %d free at the start, %+v", free, total, d.Info())
	}
	p := must[cuda.Ptr](t)(d.Alloc(1000))
	if uint64(p)%256 != 0 {
		t.Errorf("%#x is not aligned", uint64(p))
	}
	if left, _ := d.Memory(); left > free || exact && left > free-1000 {
		t.Errorf("%d free after an allocation of 1000, %d before", left, free)
	}
	if _, err := d.Alloc(total); !errors.Is(err, cuda.ErrOutOfMemory) {
		t.Errorf("more than the total: %v", err)
	}
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
	if err := d.Free(p); err == nil {
		t.Error("freed twice")
	}
	if left, _ := d.Memory(); exact && left != free {
		t.Errorf("%d free at the end, %d at the start", left, free)
	}
}

func copies(t *testing.T, d cuda.Device) {
	s := stream(t, d)
	in, out := must[cuda.HostMemory](t)(d.AllocHost(4096)), must[cuda.HostMemory](t)(d.AllocHost(4096))
	a, b := must[cuda.Ptr](t)(d.Alloc(4096)), must[cuda.Ptr](t)(d.Alloc(4096))
	for i := range in.Bytes() {
		in.Bytes()[i] = byte(i * 7)
	}
	for _, err := range []error{
		s.CopyIn(a, in.Bytes()), s.Copy(b, a, 4096), s.Copy(b, a.Offset(2048), 1024), s.CopyOut(out.Bytes(), b),
		s.Sync(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := append(append([]byte(nil), in.Bytes()[2048:3072]...), in.Bytes()[1024:]...)
	if !bytes.Equal(out.Bytes(), want) {
		t.Error("work was not done in order")
	}
	for _, err := range []error{s.Close(), in.Free(), out.Free()} {
		if err != nil {
			t.Error(err)
		}
	}
	if s.CopyIn(a, want) == nil {
		t.Error("a closed stream accepts work")
	}
}

// events: one stream waits for another, however the two are scheduled.
func events(t *testing.T, d cuda.Device) {
	first, second := stream(t, d), stream(t, d)
	host := must[cuda.HostMemory](t)(d.AllocHost(8))
	p := must[cuda.Ptr](t)(d.Alloc(1 << 20))
	big := must[cuda.HostMemory](t)(d.AllocHost(1 << 20))
	for round := range byte(50) {
		copy(big.Bytes(), bytes.Repeat([]byte{round}, 1<<20))
		if err := first.CopyIn(p, big.Bytes()); err != nil {
			t.Fatal(err)
		}
		e := must[cuda.Event](t)(first.Record())
		for _, err := range []error{second.Wait(e), second.CopyOut(host.Bytes(), p.Offset(1<<20-8)), second.Sync()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if host.Bytes()[7] != round || !e.Done() {
			t.Fatalf("round %d: read %d before the write", round, host.Bytes()[7])
		}
	}
}

// inTurn: two streams add to one array alternately, each waiting for the other.
func inTurn(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	const rounds = 40
	n := 1 << 16
	if d.Info().Simulated { // slow enough to expose a wrong order; an emulated kernel is much slower
		n = 1 << 10
	}
	sum, one := put(b, make([]float32, n)), put(b, []float32{1})
	ones := put(b, slices.Repeat([]float32{1}, n))
	streams := [2]cuda.Stream{b.s, stream(t, d)}
	for i := range rounds {
		s, other := streams[i%2], streams[1-i%2]
		add := kernels.MatMul{Out: sum, In: one, Weight: ones, M: 1, N: int32(n), K: 1, Accumulate: true}
		if err := s.Launch(add); err != nil {
			t.Fatal(err)
		}
		if err := other.Wait(must[cuda.Event](t)(s.Record())); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range b.get(sum, n) {
		if v != rounds {
			t.Fatalf("element %d is %v after %d additions", i, v, rounds)
		}
	}
}

type unknown struct{}

func (unknown) Kernel() string { return "no_such_kernel" }

func faults(t *testing.T, d cuda.Device) {
	host := must[cuda.HostMemory](t)(d.AllocHost(1024))
	p := must[cuda.Ptr](t)(d.Alloc(512))
	for name, give := range map[string]func(cuda.Stream) error{
		"write past the end":    func(s cuda.Stream) error { return s.CopyIn(p, host.Bytes()) },
		"read before the start": func(s cuda.Stream) error { return s.CopyOut(host.Bytes()[:8], p-8) },
		"null":                  func(s cuda.Stream) error { return s.Copy(0, p, 8) },
		"negative length":       func(s cuda.Stream) error { return s.Copy(p, p, -1) },
	} {
		s := stream(t, d)
		err := errors.Join(give(s), s.Sync())
		if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
		_, recorded := s.Record()
		if s.CopyIn(p, host.Bytes()[:8]) == nil || s.Sync() == nil || recorded == nil {
			t.Errorf("%s: the fault is not sticky", name)
		}
		_ = s.Close()
	}
	if err := stream(t, d).Launch(unknown{}); !errors.Is(err, cuda.ErrUnknownKernel) {
		t.Errorf("unknown kernel: %v", err)
	}
	other := stream(t, d)
	if err := errors.Join(other.CopyIn(p, host.Bytes()[:8]), other.Sync()); err != nil {
		t.Errorf("a fault on one stream affects another: %v", err)
	}
}

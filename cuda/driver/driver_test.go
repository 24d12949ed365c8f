//go:build linux

package driver_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/driver"
	"troupe/testkit/fakecuda"
	"troupe/testkit/kernelhost"
)

func TestConformanceOnFake(t *testing.T) {
	fake := fakecuda.Open(t)
	l := load(t, fake.Path)
	before := fake.Live()
	required := []string{"virtual memory", "batches", "graphs", "partitions", "properties", "shared memory"}
	if _, err := exec.LookPath("g++"); err == nil {
		fake.Do("kernels " + kernelhost.Build(t))
		required = append(
			required,
			"kernels",
			"NaN is propagated",
			"rows do not depend on their batch",
			"graphs of kernels",
			"two streams in turn",
		)
	}
	cudatest.Run(t, func(t *testing.T) cuda.Device {
		fake.Reset() // after a kernel that fails on purpose
		return open(t, l, 0)
	}, required...)
	fake.Reset()
	t.Run("peers", func(t *testing.T) { cudatest.Peers(t, open(t, l, 0), open(t, l, 1)) })
	t.Run("shared host memory", func(t *testing.T) { cudatest.SharedHost(t, open(t, l, 0), open(t, l, 1)) })
	if left := fake.Live() - before; left != 0 {
		t.Errorf("%d objects of the driver leaked", left)
	}
}

// TestConformanceOnGPU runs on the machine's GPU, if there is one; TROUPE_TEST_GPU=0 disables it.
func TestConformanceOnGPU(t *testing.T) {
	if os.Getenv("TROUPE_TEST_GPU") == "0" {
		t.Skip("TROUPE_TEST_GPU=0")
	}
	found, why, err := driver.Probe()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("no GPU: " + why)
	}
	openGPU := func(t *testing.T, index int) cuda.Device {
		d, err := driver.Open(index, driver.AnyBLAS)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := openGPU(t, 0)
	t.Logf("products: %s", products(one))
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	cudatest.Run(t, func(t *testing.T) cuda.Device { return openGPU(t, 0) })
	if len(found) > 1 {
		t.Run("peers", func(t *testing.T) { cudatest.Peers(t, openGPU(t, 0), openGPU(t, 1)) })
		t.Run("shared host memory", func(t *testing.T) { cudatest.SharedHost(t, openGPU(t, 0), openGPU(t, 1)) })
	}
}

// TestSystemLibrary: libraries are found by name, as the system's loader does.
func TestSystemLibrary(t *testing.T) {
	folders := filepath.Dir(fakecuda.Path(t)) + ":" + filepath.Dir(fakecuda.BLAS(t))
	child := exec.Command(os.Args[0], "-test.run=^TestConformanceOnGPU$/^(memory|copies|peers)$", "-test.v")
	child.Env = append(
		os.Environ(),
		"LD_LIBRARY_PATH="+folders,
		"FAKECUDA_DEVICES=3",
		"TROUPE_TEST_GPU=1",
		"FAKECUDA_KERNELS="+kernelhost.Build(t),
	)
	out, err := child.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") != 4 ||
		!strings.Contains(string(out), "products: cuBLAS 12.4.5") {
		t.Errorf("%v: %s", err, out)
	}
}

func load(t testing.TB, path string) *driver.Library {
	t.Helper()
	l, err := driver.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t testing.TB, l *driver.Library, index int) cuda.Device {
	t.Helper()
	d, err := l.Open(index, driver.Embedded{})
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

func stream(t testing.TB, d cuda.Device) cuda.Stream {
	t.Helper()
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func alloc(t testing.TB, d cuda.Device, bytes int64) cuda.Ptr {
	t.Helper()
	p, err := d.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hostMemory(t testing.TB, d cuda.Device, bytes int64) []byte {
	t.Helper()
	m, err := d.AllocHost(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return m.Bytes()
}

// TestAsynchronous: work is handed over before it is done, and an event reports when it is.
func TestAsynchronous(t *testing.T) {
	fake := fakecuda.Open(t)
	d := open(t, load(t, fake.Path), 0)
	s, other := stream(t, d), stream(t, d)
	at, in, out := alloc(t, d, 8), hostMemory(t, d, 8), hostMemory(t, d, 8)
	copy(in, "message")
	fake.Do("hold")
	if err := s.CopyIn(at, in); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err = errors.Join(err, other.Wait(e), other.CopyOut(out, at)); err != nil {
		t.Fatal(err)
	}
	last, err := other.Record()
	if err != nil {
		t.Fatal(err)
	}
	if e.Done() || last.Done() {
		t.Error("an event is done before its work")
	}
	fake.Do("go")
	if err := last.Sync(); err != nil || !e.Done() || !bytes.Equal(in, out) {
		t.Errorf("read back %q, %v", out, err)
	}
}

// TestHostMemoryFreedInUse: a copy of host memory that was freed before the copy ran fails, and does not read what is
// at its address now.
func TestHostMemoryFreedInUse(t *testing.T) {
	fake := fakecuda.Open(t)
	d := open(t, load(t, fake.Path), 0)
	s, at := stream(t, d), alloc(t, d, 1<<20)
	host, err := d.AllocHost(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	fake.Do("hold")
	if err = s.CopyIn(at, host.Bytes()); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record() // hands the copy over
	if err = errors.Join(err, host.Free()); err != nil {
		t.Fatal(err)
	}
	fake.Do("go")
	fault := (*cuda.Fault)(nil)
	if err = errors.Join(e.Sync(), s.Sync()); !errors.As(err, &fault) || fault.Name != "CUDA_ERROR_ILLEGAL_ADDRESS" {
		t.Errorf("the copy: %v", err)
	}
}

// TestWaitRefersToOneRecord: a stream waits for the given record, even if the driver's event has
// been reused since. Otherwise this test hangs.
func TestWaitRefersToOneRecord(t *testing.T) {
	fake := fakecuda.Open(t)
	d := open(t, load(t, fake.Path), 0)
	s, waiting, at, host := stream(t, d), stream(t, d), alloc(t, d, 8), hostMemory(t, d, 8)
	e, err := s.Record()
	if err = errors.Join(err, waiting.Wait(e), e.Sync()); err != nil {
		t.Fatal(err)
	}
	fake.Do("hold")
	err = s.CopyIn(at, host)
	again, failed := s.Record()
	last, failedLast := waiting.Record()
	if err := errors.Join(err, failed, failedLast, last.Sync()); err != nil {
		t.Fatal(err)
	}
	fake.Do("go")
	if err := again.Sync(); err != nil {
		t.Error(err)
	}
}

// TestConcurrentEventQueries: any number of goroutines may query an event while it is reused.
func TestConcurrentEventQueries(t *testing.T) {
	d := open(t, load(t, fakecuda.Open(t).Path), 0)
	s, at, host := stream(t, d), alloc(t, d, 1<<20), hostMemory(t, d, 1<<20)
	for range 20 {
		err := s.CopyIn(at, host)
		e, failed := s.Record()
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				for i%2 == 0 && !e.Done() {
					runtime.Gosched()
				}
				if err := e.Sync(); err != nil || !e.Done() {
					t.Errorf("%v", err)
				}
			})
		}
		all.Wait()
	}
}

// TestThreads: goroutines that move between threads always use the right device. The fake rejects
// streams of another context, and memory is counted.
func TestThreads(t *testing.T) {
	fake := fakecuda.Open(t)
	l := load(t, fake.Path)
	devices := []cuda.Device{open(t, l, 0), open(t, l, 1)}
	free, _ := devices[0].Memory()
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			d := devices[g%2]
			s, host := stream(t, d), hostMemory(t, d, 64)
			for range 100 {
				p, err := d.Alloc(64)
				if err = errors.Join(err, s.CopyIn(p, host), s.CopyOut(host, p), s.Sync(), d.Free(p)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for i, d := range devices {
		if left, _ := d.Memory(); left != free {
			t.Errorf("device %d has %d bytes free, %d before", i, left, free)
		}
	}
}

// TestLongLists: more work than fits into a list is done in order.
func TestLongLists(t *testing.T) {
	fake := fakecuda.Open(t)
	d := open(t, load(t, fake.Path), 0)
	s, at, host := stream(t, d), alloc(t, d, 8), hostMemory(t, d, 1000)
	crossings := fake.Calls("cuCtxSetCurrent")
	for i := range host {
		host[i] = byte(i)
		if err := s.CopyIn(at, host[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if n := fake.Calls("cuCtxSetCurrent") - crossings; n != 1000/64 {
		t.Errorf("a thousand copies took %d crossings before the first wait", n)
	}
	if err := errors.Join(s.CopyOut(host[:1], at), s.Sync()); err != nil || host[0] != byte(999%256) {
		t.Errorf("the last copy was not done last: %d, %v", host[0], err)
	}
}

// TestMissingLibrary checks that errors about a missing or old library state what to do.
func TestMissingLibrary(t *testing.T) {
	path := fakecuda.Path(t, "green")
	folder := t.TempDir()
	if _, err := driver.Load(filepath.Join(folder, "none.so")); err == nil ||
		!strings.Contains(err.Error(), "install it") {
		t.Errorf("no library: %v", err)
	}
	old := compile(t, "int cuInit(unsigned flags) { return 0; }")
	if _, err := driver.Load(old); err == nil || !strings.Contains(err.Error(), "lacks cuDriverGetVersion, ") ||
		!strings.Contains(err.Error(), "newer") {
		t.Errorf("a library with almost no functions: %v", err)
	}
	d := open(t, load(t, path), 0)
	_, err := d.(cuda.Partitioner).Partition(8)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "CUDA 12.5") {
		t.Errorf("partitions of a library without them: %v", err)
	}
}

func TestProbe(t *testing.T) {
	l := load(t, fakecuda.Open(t).Path)
	found, why, err := l.Probe()
	if err != nil || why != "" || len(found) != 2 || l.Count() != 2 {
		t.Fatalf("%+v, %q, %v", found, why, err)
	}
	if d := open(t, l, 1); found[1] != d.Info() || !d.Info().Simulated || d.Info().Index != 1 ||
		found[0].UUID == found[1].UUID {
		t.Errorf("%+v is not %+v", d.Info(), found)
	}
	if _, err := l.Open(2, driver.Embedded{}); err == nil {
		t.Error("opened a device that does not exist")
	}
}

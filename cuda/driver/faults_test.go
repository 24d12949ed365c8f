//go:build linux

package driver_test

import (
	"errors"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/testkit/fakecuda"
)

// everything uses all features of a device and returns the first error of each part.
func everything(l *driver.Library) (err error) {
	d, err := l.Open(0, driver.Embedded{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	d.Memory()
	d.(cuda.Describer).Properties()
	at, failed := d.Alloc(1 << 20)
	host, failedHost := d.AllocHost(1 << 20)
	if err := errors.Join(failed, failedHost); err != nil {
		return err
	}
	return errors.Join(streams(d, at, host.Bytes()), virtual(d), shared(l, d, at), host.Free(), d.Free(at))
}

func streams(d cuda.Device, at cuda.Ptr, host []byte) error {
	s, err := d.NewStream("one")
	if err != nil {
		return err
	}
	err = errors.Join(s.CopyIn(at, host), s.Copy(at, at.Offset(1<<19), 1<<19), s.CopyOut(host, at))
	if e, failed := s.Record(); failed == nil {
		e.Done()
		err = errors.Join(err, s.Wait(e), e.Sync())
	} else {
		err = errors.Join(err, failed)
	}
	g, failed := s.(cuda.Capturer).Capture(func() error { return s.CopyIn(at, host) })
	if failed == nil {
		failed = errors.Join(g.Launch(s), g.Close())
	}
	parts, failedParts := d.(cuda.Partitioner).Partition(8, 8)
	for _, p := range parts {
		inPart, failed := p.NewStream("part")
		if failed == nil {
			failed = errors.Join(inPart.CopyIn(at, host), inPart.Sync())
		}
		failedParts = errors.Join(failedParts, failed, p.Close())
	}
	return errors.Join(err, failed, failedParts, s.Sync(), s.Close())
}

func virtual(d cuda.Device) error {
	v := d.(cuda.VirtualMemory)
	g := v.Granularity()
	base, err := v.Reserve(2 * g)
	if err != nil {
		return err
	}
	m, err := v.CreatePhysical(g)
	if err != nil {
		return errors.Join(err, v.Unreserve(base))
	}
	if err = v.Map(base, m); err == nil {
		err = v.Unmap(base, g)
	}
	return errors.Join(err, m.Release(), v.Unreserve(base))
}

func shared(l *driver.Library, d cuda.Device, at cuda.Ptr) error {
	_, err := d.(cuda.Sharer).Share(at)
	other, failed := l.Open(1, driver.Embedded{})
	if failed != nil {
		return errors.Join(err, failed)
	}
	defer func() { _ = other.Close() }()
	there, failed := other.Alloc(512)
	if failed != nil {
		return errors.Join(err, failed)
	}
	s, failed := d.NewStream("peer")
	if failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(
		err,
		d.(cuda.Peers).EnablePeer(other),
		s.(cuda.PeerCopier).CopyPeer(at, other, there, 512),
		s.Sync(),
	)
}

// releases reports whether a function frees something: if it fails, the object leaks.
func releases(name string) bool {
	for _, word := range []string{"Free", "Destroy", "Release", "Unmap", "Close", "Unload", "Unregister"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// TestEveryCallFails makes each function fail at its first and second call, once and permanently:
// errors have types, nothing hangs, and everything is freed.
func TestEveryCallFails(t *testing.T) {
	fake := fakecuda.Open(t)
	l := load(t, fake.Path)
	if err := everything(l); err != nil {
		t.Fatal(err)
	}
	for _, name := range driver.SymbolNames() {
		for _, how := range []string{"@1=2", "@2=1", "@1=719!", "@2=214!", "@1+=999"} {
			before := fake.Live()
			fake.Fault(name + how)
			err := everything(l)
			fake.Reset()
			fault := (*cuda.Fault)(nil)
			switch typed := errors.As(err, &fault) || errors.Is(err, cuda.ErrOutOfMemory) ||
				errors.Is(err, errors.ErrUnsupported); {
			case err != nil && !typed:
				t.Errorf("%s%s: %v", name, how, err)
			case strings.HasSuffix(how, "!") && fault != nil && !errors.Is(err, cuda.ErrDeviceLost):
				t.Errorf("%s%s does not lose the device: %v", name, how, err)
			}
			if left := fake.Live() - before; left != 0 && !releases(name) {
				t.Errorf("%s%s: %d objects leaked: %v", name, how, left, err)
			}
		}
	}
}

// TestWorkFails: a fault of running work is reported to the caller that waits, and from then on the
// device rejects everything with the same fault. Other devices are not affected.
func TestWorkFails(t *testing.T) {
	fake := fakecuda.Open(t)
	l := load(t, fake.Path)
	for spec, name := range map[string]string{
		"exec:copy@2=214":          "CUDA_ERROR_ECC_UNCORRECTABLE",
		"exec:copy@1=719":          "CUDA_ERROR_LAUNCH_FAILED",
		"exec:copy@3=700":          "CUDA_ERROR_ILLEGAL_ADDRESS",
		"cuStreamQuery@1=999!":     "CUDA_ERROR_UNKNOWN",
		"cuEventQuery@1+=999!":     "CUDA_ERROR_UNKNOWN",
		"cuMemcpyHtoDAsync_v2@2=4": "CUDA_ERROR_4",
	} {
		before := fake.Live()
		d, other := open(t, l, 0), open(t, l, 1)
		s, waiting := stream(t, d), stream(t, d)
		at, host := alloc(t, d, 4096), hostMemory(t, d, 4096)
		fake.Fault(spec)
		var err error
		for range 4 {
			err = errors.Join(err, s.CopyIn(at, host))
		}
		e, failed := s.Record()
		if failed == nil {
			failed = e.Sync()
		}
		err = errors.Join(err, failed, s.Sync())
		if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Name != name ||
			!errors.Is(err, cuda.ErrDeviceLost) {
			t.Errorf("%s: %v", spec, err)
		}
		_, failedAlloc := d.Alloc(1)
		_, failedHost := d.AllocHost(1)
		_, failedStream := d.NewStream("late")
		_, failedRecord := waiting.Record()
		for what, err := range map[string]error{
			"Alloc": failedAlloc, "AllocHost": failedHost, "NewStream": failedStream, "Record": failedRecord,
			"CopyIn": waiting.CopyIn(at, host), "Sync": waiting.Sync(),
		} {
			if !errors.Is(err, cuda.ErrDeviceLost) {
				t.Errorf("%s after %s: %v", what, spec, err)
			}
		}
		there, fine := alloc(t, other, 512), stream(t, other)
		if err := errors.Join(
			fine.CopyIn(there, hostMemory(t, other, 512)), fine.Sync(), other.Close(), d.Close(),
		); err != nil {
			t.Errorf("%s: the other device: %v", spec, err)
		}
		fake.Reset()
		if left := fake.Live() - before; left != 0 {
			t.Errorf("%s: %d objects leaked", spec, left)
		}
	}
}

// TestMemoryRunsOutOnce: a failed allocation has no other effect.
func TestMemoryRunsOutOnce(t *testing.T) {
	fake := fakecuda.Open(t)
	d := open(t, load(t, fake.Path), 0)
	fake.Fault("cuMemAlloc_v2@2=2")
	alloc(t, d, 512)
	if _, err := d.Alloc(512); !errors.Is(err, cuda.ErrOutOfMemory) {
		t.Errorf("the second allocation: %v", err)
	}
	alloc(t, d, 512)
}

// TestNoStream: a stream that was not created is a nil interface.
func TestNoStream(t *testing.T) {
	fake := fakecuda.Open(t)
	d := open(t, load(t, fake.Path), 0)
	fake.Fault("cuStreamCreateWithPriority@1=2")
	if s, err := d.NewStream("none"); s != nil || !errors.Is(err, cuda.ErrOutOfMemory) {
		t.Errorf("%v, %v", s, err)
	}
}

//go:build linux

package driver_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/selftest"
)

// TestReopen: a lost device works again after Reopen, without its previous objects and with its
// host memory unchanged.
func TestReopen(t *testing.T) {
	fake, d := openWithAdd(t)
	before, _ := d.Memory() // the fake's devices are shared with tests that leak memory on purpose
	s, at, host := stream(t, d), alloc(t, d, 4096), hostMemory(t, d, 4096)
	fake.Fault("exec:copy@1=700")
	if err := errors.Join(s.CopyIn(at, host), s.Sync()); !errors.Is(err, cuda.ErrDeviceLost) {
		t.Fatalf("a bad address: %v", err)
	}
	if err := d.(cuda.Reopener).Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyIn(at, host); err == nil || errors.Is(err, cuda.ErrDeviceLost) {
		t.Errorf("an earlier stream: %v", err)
	}
	if free, _ := d.Memory(); free != before {
		t.Errorf("%d bytes free, %d before", free, before)
	}
	copy(host, "it is still there")
	s, at = stream(t, d), alloc(t, d, 4096)
	back := hostMemory(t, d, 4096)
	if err := errors.Join(s.CopyIn(at, host), s.CopyOut(back, at), s.Sync()); err != nil || !bytes.Equal(host, back) {
		t.Errorf("after Reopen: %v", err)
	}
	if err := errors.Join(s.Launch(add{Out: at, Factor: 1}), s.Sync()); err != nil {
		t.Errorf("a kernel: %v", err)
	}
	if err := errors.Join(d.(cuda.Reopener).Reopen(), s.Sync()); err != nil {
		t.Errorf("Reopen of a device that is not lost: %v", err)
	}
}

// TestReopenForgetsEvents: an earlier record is over, and its handle, which the driver no longer
// knows, is not reused.
func TestReopenForgetsEvents(t *testing.T) {
	fake, d := openWithAdd(t)
	s, at := stream(t, d), alloc(t, d, 64)
	before, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	fake.Fault("exec:copy@1=700")
	if err := errors.Join(s.CopyIn(at, hostMemory(t, d, 64)), s.Sync()); !errors.Is(err, cuda.ErrDeviceLost) {
		t.Fatal(err)
	}
	if err := d.(cuda.Reopener).Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := before.Sync(); !before.Done() || err == nil || errors.Is(err, cuda.ErrDeviceLost) {
		t.Errorf("an earlier record: done %v, %v", before.Done(), err)
	}
	s = stream(t, d)
	if err := s.Wait(before); err == nil {
		t.Error("a stream waits for an earlier record")
	}
	after, err := s.Record()
	if err == nil {
		err = after.Sync()
	}
	if err != nil {
		t.Errorf("a record after Reopen: %v", err)
	}
}

// TestReopenFails: if the driver fails, the device stays lost, and the error tells what to do.
func TestReopenFails(t *testing.T) {
	for _, refused := range []string{
		"cuDevicePrimaryCtxReset_v2@1=999", "cuMemHostRegister_v2@1=1", "cuLibraryLoadData@1=2",
	} {
		t.Run(refused, func(t *testing.T) {
			fake, d := openWithAdd(t)
			s, at, host := stream(t, d), alloc(t, d, 64), hostMemory(t, d, 64)
			fake.Fault("exec:copy@1=214")
			if err := errors.Join(s.CopyIn(at, host), s.Sync()); err == nil {
				t.Fatal("no fault")
			}
			fake.Fault(refused)
			if err := selftest.Run(t.Context(), d); err == nil ||
				!strings.Contains(err.Error(), "restart the node") ||
				fake.Unfired() != 0 {
				t.Errorf("the first try: %v", err)
			}
			if _, err := d.Alloc(1); !errors.Is(err, cuda.ErrDeviceLost) {
				t.Errorf("an allocation after that: %v", err)
			}
			if err := selftest.Run(t.Context(), d); err != nil {
				t.Errorf("the second try: %v", err)
			}
		})
	}
}

// TestReopenWithBLAS: cuBLAS computes products again after Reopen.
func TestReopenWithBLAS(t *testing.T) {
	fake, l := withBLAS(t)
	d := open(t, l, 0)
	fake.Fault("cuMemAlloc_v2@1=999!")
	if _, err := d.Alloc(1); !errors.Is(err, cuda.ErrDeviceLost) {
		t.Fatal(err)
	}
	if err := selftest.Run(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	cudatest.Product(t, d, cuda.BF16, 3, 20, 40)
	if got := products(d); got != "cuBLAS 12.4.5" {
		t.Error(got)
	}
}

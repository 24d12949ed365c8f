package simulated

import (
	"errors"
	"testing"

	"troupe/core/cost"
	"troupe/cuda"
)

func open(t *testing.T, group int) *Device {
	t.Helper()
	d, err := Open(Config{Index: 1, Group: group, Profile: cost.Profile{
		Device: cost.Device{Name: "X", MemoryBytes: &cost.Fact{Value: 64 << 20}}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLedger checks that memory is counted, whether allocated or mapped, and that there is no more than its size.
func TestLedger(t *testing.T) {
	d := open(t, 2)
	if i := d.Info(); i.Name != "2 x X (simulated)" || !i.Ledger || i.MemoryBytes != 128<<20 {
		t.Errorf("%+v", i)
	}
	used := func(want int64) {
		t.Helper()
		if free, total := d.Memory(); total-free != want {
			t.Errorf("%d bytes are used, want %d", total-free, want)
		}
	}
	a, err := d.Alloc(100 << 20)
	if err != nil {
		t.Fatal(err)
	}
	base, err := d.Reserve(64 * granule)
	if err != nil {
		t.Fatal(err)
	}
	used(100 << 20)
	p, err := d.CreatePhysical(granule)
	if err != nil || d.Map(base, p) != nil {
		t.Fatal(err)
	}
	used(102 << 20)
	if _, err := d.Alloc(27 << 20); !errors.Is(err, cuda.ErrOutOfMemory) {
		t.Errorf("more than there is: %v", err)
	}
	if p.Release() == nil || d.Map(base, p) == nil || d.Free(a+1) == nil || d.Unmap(base+granule, granule) == nil {
		t.Error("a wrong call succeeds")
	}
	if err := errors.Join(d.Unmap(base, granule), p.Release(), d.Unreserve(base), d.Free(a)); err != nil {
		t.Error(err)
	}
	used(0)
	if _, err := Open(Config{}); err == nil {
		t.Error("a device without memory opens")
	}
}

// TestNoContent checks that work is refused, since there are no bytes to work on.
func TestNoContent(t *testing.T) {
	s, err := open(t, 1).NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	var fault *cuda.Fault
	if err := s.CopyIn(1, nil); !errors.As(err, &fault) {
		t.Errorf("copy in: %v", err)
	}
	if err := s.CopyOut(nil, 1); !errors.As(err, &fault) {
		t.Errorf("copy out: %v", err)
	}
}

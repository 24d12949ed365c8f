package selftest_test

import (
	"context"
	"errors"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/selftest"
)

func open(t *testing.T, inject func(string) error) cuda.Device {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 16 << 20, Workers: 1, Inject: inject})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestRun(t *testing.T) {
	d := open(t, nil)
	if err := selftest.Run(t.Context(), d); err != nil {
		t.Error(err)
	}
	if speeds, err := selftest.Bandwidth(t.Context(), d, 1<<20, 2); err != nil || speeds.In <= 0 || speeds.Out <= 0 ||
		speeds.Within <= 0 {
		t.Errorf("%+v, %v", speeds, err)
	}
	if free, total := d.Memory(); free != total {
		t.Errorf("%d bytes leaked", total-free)
	}
}

// TestCopyFaults: a fault in any of the copies fails the test.
func TestCopyFaults(t *testing.T) {
	for _, op := range []string{"copy in", "copy", "copy out"} {
		d := open(t, func(now string) error {
			if now == op {
				return errors.New("broken")
			}
			return nil
		})
		fault := (*cuda.Fault)(nil)
		if err := selftest.Run(t.Context(), d); !errors.As(err, &fault) || fault.Op != op {
			t.Errorf("%s: %v", op, err)
		}
		if _, err := selftest.Bandwidth(t.Context(), d, 1<<20, 1); !errors.As(err, &fault) || fault.Op != op {
			t.Errorf("%s: %v", op, err)
		}
		if free, total := d.Memory(); free != total {
			t.Errorf("%s: %d bytes leaked", op, total-free)
		}
	}
}

// forgetful is a device that changes the data copied out of it.
type forgetful struct{ cuda.Device }

func (f forgetful) NewStream(name string) (cuda.Stream, error) {
	s, err := f.Device.NewStream(name)
	return changing{s}, err
}

type changing struct{ cuda.Stream }

func (c changing) CopyOut(dst []byte, src cuda.Ptr) error {
	if err := errors.Join(c.Stream.CopyOut(dst, src), c.Sync()); err != nil {
		return err
	}
	dst[len(dst)/2] ^= 1
	return nil
}

func TestDetectsDamage(t *testing.T) {
	if err := selftest.Run(t.Context(), forgetful{open(t, nil)}); err == nil {
		t.Error("a flipped bit was not detected")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := selftest.Run(ended, open(t, nil)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

package host_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	cudatest.Run(t, func(t *testing.T) cuda.Device {
		d, err := host.Open(host.Config{MemoryBytes: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// TestInjectedFault: a fault that is asked for is one like any other, and the device goes on.
func TestInjectedFault(t *testing.T) {
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20, Inject: func(op string) error {
		if op == "copy in" {
			return errors.New("uncorrectable ECC error")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.CopyIn(p, make([]byte, 8)), s.Sync())
	if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Op != "copy in" {
		t.Errorf("%v", err)
	}
}

//go:build linux

package driver_test

import (
	"os"
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/driver"
	"troupe/testkit/fakecuda"
)

func TestConformanceOnFake(t *testing.T) {
	fake := fakecuda.Open(t)
	l := load(t, fake.Path)
	before := fake.Live()
	cudatest.Run(t, func(t *testing.T) cuda.Device { return open(t, l, 0) })
	if left := fake.Live() - before; left != 0 {
		t.Errorf("%d objects of the driver were not given back", left)
	}
}

// TestConformanceOnGPU runs on the machine's GPU where there is one; TROUPE_TEST_GPU=0 keeps it off.
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
	cudatest.Run(t, func(t *testing.T) cuda.Device {
		d, err := driver.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
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

package kernels_test

import (
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
)

// TestConformance runs the suite in each variant that this processor supports.
func TestConformance(t *testing.T) {
	for name, level := range kernels.Levels() {
		t.Run(name, func(t *testing.T) {
			defer kernels.Use(level)()
			open := func(t *testing.T) cuda.Device {
				d, err := host.Open(host.Config{MemoryBytes: 64 << 20, Workers: 3})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			cudatest.Run(t, open)
			cudatest.BadIndices(t, open)
			cudatest.BadArguments(t, open)
		})
	}
}

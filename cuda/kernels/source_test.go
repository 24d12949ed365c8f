package kernels_test

import (
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/host"
	"troupe/testkit/kernelhost"
)

// TestSources runs the CUDA sources on the CPU against float64. It does not test the PTX made from
// them.
func TestSources(t *testing.T) {
	library := kernelhost.Load(t)
	open := func(t *testing.T) cuda.Device {
		d, err := host.Open(host.Config{MemoryBytes: 64 << 20, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		return kernelhost.Device(library, d, cuda.BF16)
	}
	cudatest.Kernels(t, open)
	cudatest.BadIndices(t, open)
}

//go:build linux

package driver_test

import (
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/testkit/fakecuda"
	"troupe/testkit/kernelhost"
)

// TestKernelsOnFake: the driver launches the embedded kernels, whose CUDA sources run on the CPU in their place.
func TestKernelsOnFake(t *testing.T) {
	fake := fakecuda.Open(t)
	fake.Do("kernels " + kernelhost.Build(t))
	l := load(t, fake.Path)
	cudatest.Kernels(t, func(t *testing.T) cuda.Device { return open(t, l, 0) },
		"kernels", "NaN is passed on", "rows do not depend on their batch")
}

//go:build linux

package driver_test

import (
	"errors"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/cuda/driver"
	"troupe/cuda/kernels"
	"troupe/testkit/fakecuda"
	"troupe/testkit/kernelhost"
)

// withBLAS returns a library whose devices run the CUDA sources as kernels and use the fake cuBLAS.
func withBLAS(t *testing.T) (*fakecuda.Fake, *driver.Library) {
	t.Helper()
	fake := fakecuda.Open(t)
	fake.Do("kernels " + kernelhost.Build(t))
	l := load(t, fake.Path)
	if err := l.UseBLAS(fakecuda.BLAS(t)); err != nil {
		t.Fatal(err)
	}
	return fake, l
}

func products(d cuda.Device) string { return d.(cuda.Describer).Properties().GEMMBackend }

// TestProductsOfBLAS: products are correct, and a row's bits are the same in any batch, although
// the library's result depends on the number of rows.
func TestProductsOfBLAS(t *testing.T) {
	fake, l := withBLAS(t)
	cudatest.Kernels(t, func(t *testing.T) cuda.Device {
		d := open(t, l, 0)
		if got := products(d); got != "cuBLAS 12.4.5" || d.Info().StreamBytes == 0 {
			t.Fatalf("GEMM backend is %q", got)
		}
		fake.Fault("cublasGemmEx@1=0") // counts the calls
		return d
	}, "kernels", "NaN is propagated", "rows do not depend on their batch")
	if fake.Unfired() != 0 {
		t.Error("cuBLAS was not called")
	}
}

// TestLargeProduct: a product with more columns than one call handles, and with rows too long for
// cuBLAS.
func TestLargeProduct(t *testing.T) {
	_, l := withBLAS(t)
	cudatest.Product(t, open(t, l, 0), cuda.BF16, 3, 16<<10+5, 2)
	cudatest.Product(t, open(t, l, 0), cuda.F16, 1, 2, 32<<10+8)
}

// TestBLASInGraph: calls of cuBLAS can be captured.
func TestBLASInGraph(t *testing.T) {
	_, l := withBLAS(t)
	cudatest.GraphOfKernels(t, open(t, l, 0))
}

// TestBLASFaults: a failure of cuBLAS is a typed error, and everything is freed.
func TestBLASFaults(t *testing.T) {
	fake, l := withBLAS(t)
	before := fake.Live()
	for _, tc := range []struct {
		fault string
		is    error
		says  string
	}{
		{"cublasCreate_v2@1=3", cuda.ErrOutOfMemory, "start cuBLAS"},
		{"cublasCreate_v2@1=1", nil, "CUBLAS_STATUS_NOT_INITIALIZED"},
		{"cuMemAlloc_v2@1=2", cuda.ErrOutOfMemory, "allocate"},
		{"cublasSetStream_v2@1=7", nil, "CUBLAS_STATUS_INVALID_VALUE"},
		{"cublasSetWorkspace_v2@1=7", nil, "CUBLAS_STATUS_INVALID_VALUE"},
		{"cublasGemmEx@1=15", errors.ErrUnsupported, "CUBLAS_STATUS_NOT_SUPPORTED"},
		{"cublasGemmEx@1=13", nil, "--cublas off"},
		{"exec:cublasGemmEx@1=719", cuda.ErrDeviceLost, "CUDA_ERROR_LAUNCH_FAILED"},
	} {
		d, err := l.Open(0, driver.Embedded{})
		if err != nil {
			t.Fatal(err)
		}
		at, err := d.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		s := stream(t, d)
		fake.Fault(tc.fault)
		err = errors.Join(s.Launch(kernels.MatMul{Out: at, In: at, Weight: at, M: 1, N: 8, K: 8}), s.Sync())
		fault := (*cuda.Fault)(nil)
		if err == nil || tc.is != nil && !errors.Is(err, tc.is) || tc.is == nil && !errors.As(err, &fault) ||
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.fault, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		fake.Reset()
		if left := fake.Live() - before; left != 0 {
			t.Errorf("%s: %d objects leaked", tc.fault, left)
		}
	}
}

// TestBLASTrial: a cuBLAS that fails or computes wrong results is not used, and the device
// reports why.
func TestBLASTrial(t *testing.T) {
	fake, l := withBLAS(t)
	for fault, why := range map[string]string{
		"cublasGemmEx@2=13":   "EXECUTION_FAILED",
		"cublasCreate_v2@1=1": "NOT_INITIALIZED",
	} {
		fake.Fault(fault)
		d := open(t, l, 0)
		if got := products(d); !strings.HasPrefix(got, "own kernels: ") || !strings.Contains(got, why) ||
			d.Info().StreamBytes != 0 {
			t.Errorf("%s: %s", fault, got)
		}
	}
	wrong := compile(t, strings.Join([]string{
		"int cublasCreate_v2(void **h) { *h = h; return 0; }", "int cublasDestroy_v2(void *h) { return 0; }",
		"int cublasGetVersion_v2(void *h, int *v) { return 0; }",
		"int cublasSetStream_v2(void *h, void *s) { return 0; }",
		"int cublasSetWorkspace_v2(void *h, void *p, long n) { return 0; }", "int cublasGemmEx(void *h) { return 0; }",
	}, "\n"))
	if err := l.UseBLAS(wrong); err != nil {
		t.Fatal(err)
	}
	// The right product of an earlier trial may still be in memory, but not at the place of a
	// single row.
	if got := products(open(t, l, 0)); !strings.Contains(got, "an element of a product is") &&
		!strings.Contains(got, "an element of a row is") {
		t.Errorf("a cuBLAS that does nothing: %s", got)
	}
	fake.Fault("exec:cublasGemmEx@1=719")
	if err := l.UseBLAS(fakecuda.BLAS(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(0, driver.Embedded{}); !errors.Is(err, cuda.ErrDeviceLost) ||
		!strings.Contains(err.Error(), "--cublas off") {
		t.Errorf("a cuBLAS that breaks the device: %v", err)
	}
}

// TestNoBLAS: with NoBLAS, the built-in kernels compute products. A path that is set must exist.
func TestNoBLAS(t *testing.T) {
	fake, l := withBLAS(t)
	if err := l.UseBLAS(driver.NoBLAS); err != nil {
		t.Fatal(err)
	}
	if got := products(open(t, l, 0)); got != "own kernels: off" {
		t.Error(got)
	}
	for path, says := range map[string]string{"/none/libcublas.so": "cannot open", fake.Path: "lacks cublasCreate_v2"} {
		if err := l.UseBLAS(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

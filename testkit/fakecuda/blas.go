package fakecuda

import (
	"errors"
	"testing"
)

// BLAS returns the path of a fake libcublas.so that uses the fake libcuda.so.1 of Path. It skips
// the test if the library cannot be built. Faults refer to its calls and its work by name:
// "cublasGemmEx@1=13", "exec:cublasGemmEx@1=719".
func BLAS(t testing.TB) string {
	t.Helper()
	driver := Path(t)
	path, err := build("blas", "libcublas.so", []string{"-DDRIVER=\"" + driver + "\"", "-O3"}, nil)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

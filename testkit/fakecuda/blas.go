package fakecuda

import (
	"errors"
	"testing"
)

// BLAS returns the path of a fake libcublas.so on the fake libcuda.so.1 that Path returns, and skips the test where it cannot be built.
// Faults know its calls and its work by their names: "cublasGemmEx@1=13", "exec:cublasGemmEx@1=719".
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

//go:build linux

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"

	"troupe/cuda"
)

// Values of UseBLAS and Open besides the path of a cuBLAS library.
const (
	AnyBLAS = "auto" // the system's cuBLAS, if installed
	NoBLAS  = "off"
)

// systemBLAS are the library names of cuBLAS, newest first.
var systemBLAS = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}

// blas is an opened libcublas.so. A process never closes it.
type blas struct {
	Create       symbol `cu:"cublasCreate_v2"`
	Destroy      symbol `cu:"cublasDestroy_v2"`
	Version      symbol `cu:"cublasGetVersion_v2"`
	SetStream    symbol `cu:"cublasSetStream_v2"`
	SetWorkspace symbol `cu:"cublasSetWorkspace_v2"`
	Gemm         symbol `cu:"cublasGemmEx"`
}

// UseBLAS selects the GEMM backend of devices that are opened later: the cuBLAS at path, AnyBLAS or
// NoBLAS.
func (l *Library) UseBLAS(path string) error {
	l.blas, l.noBLAS = nil, "off"
	names := []string{path}
	switch {
	case path == NoBLAS:
		return nil
	case runWideAddress == 0:
		l.noBLAS = "no cuBLAS on " + runtime.GOARCH
		return nil
	case path == AnyBLAS:
		names = systemBLAS
	}
	var err error
	for _, name := range names {
		if l.blas, err = openBLAS(name); err == nil {
			return nil
		}
	}
	l.noBLAS = "no cuBLAS: " + err.Error()
	if path == AnyBLAS {
		return nil
	}
	return fmt.Errorf("cuda: cuBLAS: %w", err)
}

func openBLAS(path string) (*blas, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	b := new(blas)
	if missing := resolve(handle, b); len(missing) > 0 {
		return nil, fmt.Errorf("%s lacks %s: install cuBLAS 11.1 or later", path, strings.Join(missing, ", "))
	}
	return b, nil
}

// wide is a call with more arguments than a command has. blas_amd64.s depends on its layout.
type wide struct {
	fn   uintptr
	args [20]uintptr
}

// blasFailed is added to statuses of cuBLAS, to distinguish them from the driver's. blas_amd64.s
// depends on it.
const blasFailed = 0x100000

// blasStatus are the names of cublasStatus_t.
var blasStatus = map[int]string{
	1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
	13: "EXECUTION_FAILED",
	14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}

// blasFailure converts a failure status into an error.
func blasFailure(op string, status int) error {
	name := "CUBLAS_STATUS_" + blasStatus[status]
	switch blasStatus[status] {
	case "ALLOC_FAILED":
		return fmt.Errorf("%s: cuBLAS: %w", op, cuda.ErrOutOfMemory)
	case "ARCH_MISMATCH", "NOT_SUPPORTED":
		return fmt.Errorf("cuda: %s: %s: %w", op, name, errors.ErrUnsupported)
	}
	return &cuda.Fault{
		Op:     op,
		Reason: "cuBLAS failed; use built-in kernels with --cublas off",
		Code:   status,
		Name:   name,
	}
}

// callBLAS calls a function of cuBLAS in a context.
func (d *device) callBLAS(context uintptr, op string, fn symbol, args ...uintptr) error {
	both := []command{{fn: d.lib.SetContext.at, args: [maxArgs]uintptr{context}}, {fn: fn.at}}
	copy(both[1].args[:], args)
	done, result := cross(both)
	switch {
	case result == success:
		return nil
	case done == 0:
		return d.failed(op, result)
	}
	return blasFailure(op, result)
}

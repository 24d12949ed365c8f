//go:build linux

package driver

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"troupe/cuda"
)

// Results of the library that are handled separately. Others are reported by name.
const (
	success            = 0
	outOfMemory        = 2
	noDevice           = 100
	newerDriver        = 36
	notReady           = 600
	peerAlreadyEnabled = 704
	notSupported       = 801
)

// lasting are results that persist: every later call returns the same, since the context is broken
// and the device lost for this process. CUDA driver API, "Data types used by CUDA driver",
// CUresult.
var lasting = []int{
	4,   // deinitialized
	214, // uncorrectable ECC error
	220, // uncorrectable NVLink error
	226, // contained error, possibly of another application
	700, // illegal address
	702, // launch timeout
	709, // context is destroyed
	// assert, stack, instruction, alignment, address space, program counter, launch, tensor memory,
	// unknown
	710, 714, 715, 716, 717, 718, 719, 721, 999,
}

// errNoLibrary is the error on a machine without the library.
var errNoLibrary = errors.New(
	"no NVIDIA driver: install it, with its libcuda.so.1, or in a container the NVIDIA Container Toolkit",
)

// failure converts a failure result into an error: out of memory, unsupported, or a fault in op.
func (l *Library) failure(op string, result int) error {
	if result >= blasFailed {
		return blasFailure(op, result-blasFailed)
	}
	name, text := l.describe(result)
	switch result {
	case outOfMemory:
		return fmt.Errorf("%s: %w", op, cuda.ErrOutOfMemory)
	case notSupported, newerDriver:
		return fmt.Errorf("cuda: %s: %s: %w", op, text, errors.ErrUnsupported)
	}
	return &cuda.Fault{Op: op, Reason: text, Code: result, Name: name, Lost: slices.Contains(lasting, result)}
}

// peerFailure is like failure for the result of another device, whose loss is not that of the caller's.
func (l *Library) peerFailure(op string, result int) error {
	err := l.failure(op, result)
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) {
		fault.Lost = false
	}
	return err
}

func (l *Library) describe(result int) (name, text string) {
	name, text = l.text(l.ErrorName, result), l.text(l.ErrorString, result)
	if name == "" {
		name = fmt.Sprintf("CUDA_ERROR_%d", result)
	}
	if text == "" {
		text = "unknown error"
	}
	return name, text
}

func (l *Library) text(fn symbol, result int) string {
	at := out[*byte]()
	args := [maxArgs]uintptr{uintptr(result), address(at)}
	if _, code := cross([]command{{fn: fn.at, args: args}}); code != success || *at == nil {
		return ""
	}
	return goString(*at)
}

// goString copies a C string.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// unsupported returns the error for a function that the library lacks.
func unsupported(fn symbol) error {
	return fmt.Errorf(
		"cuda: this driver has no %s, introduced with CUDA %s: %w",
		fn.name,
		fn.since,
		errors.ErrUnsupported,
	)
}

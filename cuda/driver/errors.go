//go:build linux

package driver

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"troupe/cuda"
)

// Results of the library that mean something to us. The others are told by their names.
const (
	success            = 0
	outOfMemory        = 2
	noDevice           = 100
	newerDriver        = 36
	notReady           = 600
	peerAlreadyEnabled = 704
	notSupported       = 801
)

// lasting are results after which every call returns the same: the context is broken, and with it the device for this
// process. CUDA driver API, "Data types used by CUDA driver", CUresult.
var lasting = []int{
	4,                                           // deinitialized
	214,                                         // uncorrectable ECC error
	220,                                         // uncorrectable NVLink error
	226,                                         // error contained, of some application
	700,                                         // illegal address
	702,                                         // launch timeout
	709,                                         // context is destroyed
	710, 714, 715, 716, 717, 718, 719, 721, 999, // assert, stack, instruction, alignment, address space, program counter, launch, tensor memory, unknown
}

// errNoLibrary says what to do on a machine without the library.
var errNoLibrary = errors.New("no NVIDIA driver: install it, with its libcuda.so.1, or in a container the NVIDIA Container Toolkit")

// failure turns a result that is not success into an error: memory, something that the driver lacks, or a fault in op.
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

func (l *Library) describe(result int) (name, text string) {
	name, text = l.text(l.ErrorName, result), l.text(l.ErrorString, result)
	if name == "" {
		name = fmt.Sprintf("CUDA_ERROR_%d", result)
	}
	if text == "" {
		text = "an error that the driver has no words for"
	}
	return name, text
}

func (l *Library) text(fn symbol, result int) string {
	at := out[*byte]()
	if _, code := cross([]command{{fn: fn.at, args: [maxArgs]uintptr{uintptr(result), address(at)}}}); code != success || *at == nil {
		return ""
	}
	return goString(*at)
}

// goString copies a string of C.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// unsupported is the error for a function that the library lacks.
func unsupported(fn symbol) error {
	return fmt.Errorf("cuda: this driver has no %s, which came with CUDA %s: %w", fn.name, fn.since, errors.ErrUnsupported)
}

// Package host is the software device: memory is host memory outside the Go heap, streams are ordered workers that run
// concurrently, and kernels are the Go references of cuda/kernels.
//
// Its arithmetic is real; only its memory is simulated, in that it has the capacity it is told. Every address that work
// touches is checked: a bad one is a cuda.Fault, as on a GPU. Products run on SIMD where the processor has it (GOEXPERIMENT=simd), and else
// in plain Go; no BLAS library of the host is used.
package host

// Package host is the software device. Its memory is host memory outside the Go heap, its streams
// are ordered workers that run concurrently, and its kernels are the Go references of cuda/kernels.
//
// Its arithmetic is real; only its memory capacity is simulated. Every address that work uses is
// checked: a bad one is a cuda.Fault, as on a GPU. Products use SIMD if the processor has it
// (GOEXPERIMENT=simd), and plain Go otherwise; no BLAS library of the host is used.
package host

// Package kernelhost runs the CUDA sources of cuda/kernels on the CPU: the same .cu files, built by g++ with an emulation of
// blocks, barriers, shuffles and tensor cores.
//
// It tests the sources. It does not test the PTX that clang makes of them, nor the driver's translation of that, nor how a
// tensor core rounds its sums.
package kernelhost

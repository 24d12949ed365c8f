// Package kernelhost runs the CUDA sources of cuda/kernels on the CPU. The same .cu files are built
// by g++ with an emulation of blocks, barriers, shuffles and tensor cores.
//
// It tests the sources. It tests neither the PTX that clang makes of them, nor the driver's
// translation of that, nor the rounding of tensor cores.
package kernelhost

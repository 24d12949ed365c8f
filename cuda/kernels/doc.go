// Package kernels holds what runs on a device: the argument struct of each kernel, its Go reference, and its CUDA source in
// cu with the PTX that clang makes of it. Launch says how an op is launched on a GPU. docs/gpu tells what is tested where.
//
// The software device runs the references, so they are written to be fast on a CPU. What one row yields does not depend on
// which other rows are in the launch, nor on how the work is split: every sum is taken in the same order. A
// sequence's tokens are therefore the same in any batch.
//
// The innermost loops are not instrumented by the race detector: they touch memory of the device, whose order is the
// business of streams and events, and they would take most of the time of every test.
package kernels

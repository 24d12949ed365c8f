// Package kernels holds the code that runs on a device: the argument struct of each kernel, its Go
// reference, and its CUDA source in cu, with the PTX that clang makes from it. Launch returns the
// launch geometry on a GPU. docs/gpu describes what is tested where.
//
// The software device runs the references, so they are written to be fast on a CPU. The result of a
// row depends neither on the other rows of the launch nor on how the work is split: every sum has a
// fixed order. A sequence's tokens are therefore the same in any batch.
//
// The race detector does not instrument the innermost loops, and neither do the checks of pointers
// that it turns on. They access device memory, which streams and events order, and would take most
// of the time of every test.
package kernels

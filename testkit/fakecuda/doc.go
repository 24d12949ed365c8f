// Package fakecuda is a libcuda.so.1 without a GPU: a driver in C with devices of host memory, streams that are threads, and
// faults that tests ask for. It is built with gcc when a test wants it; README.md says what it does and does not do.
//
// It encodes this project's reading of NVIDIA's driver API. What passes on it is checked against that reading, not against a GPU.
package fakecuda

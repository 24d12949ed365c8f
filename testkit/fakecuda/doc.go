// Package fakecuda is a libcuda.so.1 without a GPU: a driver in C whose devices use host memory and
// whose streams are threads, with faults that tests inject. gcc builds it when a test needs it;
// README.md describes what it implements.
//
// It encodes this project's reading of NVIDIA's driver API. A test that passes on it is checked
// against that reading, not against a GPU.
package fakecuda

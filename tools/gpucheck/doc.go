// Package gpucheck checks and measures a GPU: conformance, kernels against float64, and the engine
// on the shipped model. `make gpu-check` packs it, with a results file, for a machine that has a
// GPU but no Go.
//
// Without a GPU it runs on the software device, and the first lines of the results say so.
package gpucheck

// Package gpucheck is what `make gpu-check` packs for a machine that has a GPU and no Go: conformance, kernels against float64,
// the engine on the shipped model, and measurements, with a file of results.
//
// Where there is no GPU it runs on the software device, and its results say so in their first lines.
package gpucheck

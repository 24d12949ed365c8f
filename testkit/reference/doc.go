// Package reference is a simple form of engine/llama: a forward pass in float64 without paging,
// batching or a device, and small random models to run it on. The engine is tested against it, and
// it is tested against the goldens.
package reference

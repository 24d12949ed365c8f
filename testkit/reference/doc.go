// Package reference is the plain form of engine/llama: a forward pass in float64 without paging, batching or a device, and small
// random models to run it on. The engine is tested against it, and it against the goldens.
package reference

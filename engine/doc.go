// Package engine runs models: what a replica's engine does, and the Holder that keeps models in a device's memory.
//
// It knows devices, and neither actors nor messages. engine/llama is the real engine.
package engine

// Package engine is the interface of engines, which run the steps of a replica on a device.
//
// It imports neither actors nor messages. engine/llama implements it; engine/residency keeps weights and KV memory on
// a device when actors crash; engine/kvstore stores KV blocks in host memory and on disk.
package engine

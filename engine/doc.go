// Package engine defines the interface of engines, which run the steps of a replica on a device.
//
// It does not import actors or messages. engine/llama implements the interface. engine/residency
// keeps weights and KV memory on a device across actor crashes. engine/kvstore stores KV blocks in
// host memory and on disk.
package engine

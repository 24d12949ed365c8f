package kernels

import "troupe/cuda"

// Geometry is how a kernel is launched on a GPU: the grid in blocks, a block in threads, and a block's dynamic shared
// memory.
type Geometry struct{ GridX, GridY, GridZ, BlockX, BlockY, BlockZ, SharedBytes uint32 }

// Launch returns op's entry point in Code and the geometry for its sizes; ok is false for an op that Code does not have.
func Launch(op cuda.Op) (entry string, g Geometry, ok bool) { return "", Geometry{}, false }

// Code returns modules in PTX for devices of a compute capability, or nothing where none is for them.
func Code(major, minor int) [][]byte { return nil }

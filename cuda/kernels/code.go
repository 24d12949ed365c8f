package kernels

import _ "embed"

//go:generate ./generate.sh ptx/sm_80.ptx

// ptx is all kernels for compute capability 8.0; a driver translates it for whatever is later. It needs CUDA 12.0.
//
//go:embed ptx/sm_80.ptx
var ptx []byte

// Code returns modules in PTX for devices of a compute capability, or nothing where none is for them.
func Code(major, minor int) [][]byte {
	if major < 8 {
		return nil
	}
	return [][]byte{ptx}
}

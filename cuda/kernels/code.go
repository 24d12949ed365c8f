package kernels

import _ "embed"

//go:generate ./generate.sh ptx/sm_80.ptx

// ptx holds all kernels for compute capability 8.0; a driver translates it for later ones. It needs
// CUDA 12.0.
//
//go:embed ptx/sm_80.ptx
var ptx []byte

// Code returns PTX modules for a compute capability, or nothing if there are none.
func Code(major, minor int) [][]byte {
	if major < 8 {
		return nil
	}
	return [][]byte{ptx}
}

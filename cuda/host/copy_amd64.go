package host

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// copyCached copies from device memory to host memory, which never overlap. The written data stays
// in the CPU cache, since the next step reads it: a tier checksums an offloaded block. Go's copy
// moves long runs of words with one instruction, which bypasses the cache, and reads the
// destination of shorter runs first. Moving bytes does neither.
func copyCached(to, from []byte) {
	if !cpu.X86.HasERMS {
		copy(to, from)
		return
	}
	repeatMove(unsafe.SliceData(to), unsafe.SliceData(from), min(len(to), len(from)))
}

//go:noescape
func repeatMove(to, from *byte, n int)

package host

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// land is copy from memory of the device to that of the host, which never overlap. What it writes stays in the processor's cache, for who waits
// for it reads it next: a tier sums a block that came down. Go's own copy moves words with one instruction, where this moves bytes:
// processors write long runs of words past the cache, and read shorter ones from memory before they write to them, but not bytes.
func land(to, from []byte) {
	if !cpu.X86.HasERMS {
		copy(to, from)
		return
	}
	repeatMove(unsafe.SliceData(to), unsafe.SliceData(from), min(len(to), len(from)))
}

//go:noescape
func repeatMove(to, from *byte, n int)

package models

import (
	"encoding/binary"

	"troupe/cuda"
)

// laneMask repeats the bits of one element in a word of 64 bits.
func laneMask(t cuda.DType, bits uint32) uint64 {
	if t.Bytes() == 4 {
		return uint64(bits)<<32 | uint64(bits)
	}
	two := uint64(bits)<<16 | uint64(bits)
	return two<<32 | two
}

// eachWord replaces the words of b, little-endian. The last one may have fewer than 8 bytes. The race detector does not
// instrument it, since it would take most of the time of a test: b belongs to the caller alone.
//
//go:norace
func eachWord(b []byte, next func(uint64) uint64) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, next(binary.LittleEndian.Uint64(b)))
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		binary.LittleEndian.PutUint64(last[:], next(binary.LittleEndian.Uint64(last[:])))
		copy(b, last[:])
	}
}

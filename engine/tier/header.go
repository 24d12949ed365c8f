package tier

import (
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A file is a sector that names it, then slots of equal size: a sector with the header, and the block, rounded up to sectors. Integers are
// little-endian.
//
//	name    0 magic · 8 slot bytes · 16 sum of the 16 bytes before
//	header  0 magic · 8 sequence · 16 hash · 32 length · 40 sum of the block · 48 sum of the 48 bytes before
const (
	sector     = 4096
	nameMagic  = "TRPTIER1"
	slotMagic  = "TRPBLOK1"
	headerSums = 48 // bytes that a header's own sum is over
)

func (h header) put(b []byte) {
	clear(b[:sector])
	copy(b, slotMagic)
	binary.LittleEndian.PutUint64(b[8:], h.sequence)
	copy(b[16:], h.hash[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(h.length))
	binary.LittleEndian.PutUint64(b[40:], h.sum)
	binary.LittleEndian.PutUint64(b[headerSums:], xxh3.Hash(b[:headerSums]))
}

// parseHeader reports false where there is none, or it is damaged.
func parseHeader(b []byte) (header, bool) {
	if string(b[:8]) != slotMagic || binary.LittleEndian.Uint64(b[headerSums:]) != xxh3.Hash(b[:headerSums]) {
		return header{}, false
	}
	return header{
		sequence: binary.LittleEndian.Uint64(b[8:]), hash: kv.Hash(b[16:32]),
		length: int(binary.LittleEndian.Uint64(b[32:])), sum: binary.LittleEndian.Uint64(b[40:]),
	}, true
}

func putName(b []byte, slotBytes int) {
	clear(b[:sector])
	copy(b, nameMagic)
	binary.LittleEndian.PutUint64(b[8:], uint64(slotBytes))
	binary.LittleEndian.PutUint64(b[16:], xxh3.Hash(b[:16]))
}

// parseName returns the size of a file's slots, 0 for a file that is empty, and false for one that is something else.
func parseName(b []byte) (slotBytes int, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if len(b) < sector || string(b[:8]) != nameMagic || binary.LittleEndian.Uint64(b[16:]) != xxh3.Hash(b[:16]) {
		return 0, false
	}
	return int(binary.LittleEndian.Uint64(b[8:])), true
}

// sectors rounds up.
func sectors(n int) int { return (n + sector - 1) / sector * sector }

// aligned returns memory that a file can be read into and written from past the page cache.
func aligned(n int) []byte { return fromSector(make([]byte, n+sector))[:n:n] }

// fromSector is b from the first address on that is a multiple of a sector.
func fromSector(b []byte) []byte { return b[-int(uintptr(unsafe.Pointer(&b[0])))&(sector-1):] }

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
//	header  0 magic · 8 sequence · 16 hash · 32 length · 40 sums of the block's pieces · sum of all bytes before
//
// Files of an earlier version, which have one sum for a whole block, are emptied.
const (
	sector     = 4096
	nameMagic  = "TRPTIER2"
	oldMagic   = "TRPTIER1"
	slotMagic  = "TRPBLOK2"
	headerSums = 40 // where a header's sums begin
)

func (h header) put(b []byte) {
	clear(b[:sector])
	copy(b, slotMagic)
	binary.LittleEndian.PutUint64(b[8:], h.sequence)
	copy(b[16:], h.hash[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(h.length))
	end := headerSums
	for _, sum := range h.sums {
		binary.LittleEndian.PutUint64(b[end:], sum)
		end += 8
	}
	binary.LittleEndian.PutUint64(b[end:], xxh3.Hash(b[:end]))
}

// parseHeader reports false where there is none, or it is damaged.
func parseHeader(b []byte) (header, bool) {
	length := binary.LittleEndian.Uint64(b[32:])
	if string(b[:8]) != slotMagic || length == 0 || length > 1<<40 {
		return header{}, false
	}
	h := header{sequence: binary.LittleEndian.Uint64(b[8:]), hash: kv.Hash(b[16:32]), length: int(length)}
	end := headerSums + 8*pieces(h.length)
	if binary.LittleEndian.Uint64(b[end:]) != xxh3.Hash(b[:end]) {
		return header{}, false
	}
	for at := headerSums; at < end; at += 8 {
		h.sums = append(h.sums, binary.LittleEndian.Uint64(b[at:]))
	}
	return h, true
}

func putName(b []byte, slotBytes int) {
	clear(b[:sector])
	copy(b, nameMagic)
	binary.LittleEndian.PutUint64(b[8:], uint64(slotBytes))
	binary.LittleEndian.PutUint64(b[16:], xxh3.Hash(b[:16]))
}

// parseName returns the size of a file's slots, 0 for a file that is empty; whether they are of an earlier version; and false for one that is
// something else.
func parseName(b []byte) (slotBytes int, old, ok bool) {
	if len(b) == 0 {
		return 0, false, true
	}
	if len(b) < sector || binary.LittleEndian.Uint64(b[16:]) != xxh3.Hash(b[:16]) {
		return 0, false, false
	}
	magic := string(b[:8])
	return int(binary.LittleEndian.Uint64(b[8:])), magic == oldMagic, magic == oldMagic || magic == nameMagic
}

// sectors rounds up.
func sectors(n int) int { return (n + sector - 1) / sector * sector }

// aligned returns memory that a file can be read into and written from past the page cache.
func aligned(n int) []byte { return fromSector(make([]byte, n+sector))[:n:n] }

// fromSector is b from the first address on that is a multiple of a sector.
func fromSector(b []byte) []byte { return b[-int(uintptr(unsafe.Pointer(&b[0])))&(sector-1):] }

package kvstore

import (
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A file starts with a sector that names it, followed by slabs of equal size. A slab starts with a
// sector that names it, followed by its slots. A slot is a sector with the header, followed by the
// block, rounded up to sectors. Integers are little-endian.
//
//	file    0 magic · 8 slab bytes · 16 0 · 24 sum of all bytes before slab    0 magic · 8 bytes of
//	a block · 16 sequence · 24 sum of all bytes before header  0 magic · 8 sequence · 16 hash · 32
//	length · 40 sums of the block's pieces · sum of all bytes before
//
// One sequence counts all writes to the file. A header is valid if its sequence is later than that
// of its slab's name. A slab is renamed when its block size changes or it is erased. Files of
// earlier versions, without slabs, are emptied.
const (
	sector     = kv.SlotUnit
	fileMagic  = "TRPTIER3"
	slabMagic  = "TRPSLAB3"
	slotMagic  = "TRPBLOK3"
	headerSums = 40 // offset of a header's sums
	nameBytes  = 24 // length of a name without its sum
)

// oldMagics are the magics of earlier versions, whose sum is at another offset.
var oldMagics = []string{"TRPTIER1", "TRPTIER2"}

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

// parseHeader returns false if there is no header or it is damaged.
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

// putName fills a sector with the name of a file or a slab.
func putName(b []byte, magic string, bytes int, sequence uint64) {
	clear(b[:sector])
	copy(b, magic)
	binary.LittleEndian.PutUint64(b[8:], uint64(bytes))
	binary.LittleEndian.PutUint64(b[16:], sequence)
	binary.LittleEndian.PutUint64(b[nameBytes:], xxh3.Hash(b[:nameBytes]))
}

// parseName returns false if there is no such name or it is damaged.
func parseName(b []byte, magic string) (bytes int, sequence uint64, ok bool) {
	if len(b) < sector || string(b[:8]) != magic ||
		binary.LittleEndian.Uint64(b[nameBytes:]) != xxh3.Hash(b[:nameBytes]) {
		return 0, 0, false
	}
	return int(binary.LittleEndian.Uint64(b[8:])), binary.LittleEndian.Uint64(b[16:]), true
}

// sectors rounds up to whole sectors.
func sectors(n int) int { return (n + sector - 1) / sector * sector }

// aligned returns memory for file access that bypasses the page cache.
func aligned(n int) []byte { return fromSector(make([]byte, n+sector))[:n:n] }

// fromSector returns b from the first sector-aligned address on.
func fromSector(b []byte) []byte { return b[-int(uintptr(unsafe.Pointer(&b[0])))&(sector-1):] }

package tier

import (
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A file is a sector that names it, then slabs of equal size: a sector that names the slab, then its slots, each a sector with the header, and
// the block, rounded up to sectors. Integers are little-endian.
//
//	file    0 magic · 8 slab bytes · 16 0 · 24 sum of all bytes before
//	slab    0 magic · 8 bytes of a block · 16 sequence · 24 sum of all bytes before
//	header  0 magic · 8 sequence · 16 hash · 32 length · 40 sums of the block's pieces · sum of all bytes before
//
// One sequence counts all writes to the file. A header counts where its sequence is later than its slab's: the slab is named anew
// when it becomes one for blocks of another size, or is erased. Files of an earlier version, which have no slabs, are emptied.
const (
	sector     = kv.SlotUnit
	fileMagic  = "TRPTIER3"
	slabMagic  = "TRPSLAB3"
	slotMagic  = "TRPBLOK3"
	headerSums = 40 // where a header's sums begin
	nameBytes  = 24 // of a name, without its sum
)

// oldMagics name files of earlier versions, which have their sum elsewhere.
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

// putName fills a sector that names a file or a slab.
func putName(b []byte, magic string, bytes int, sequence uint64) {
	clear(b[:sector])
	copy(b, magic)
	binary.LittleEndian.PutUint64(b[8:], uint64(bytes))
	binary.LittleEndian.PutUint64(b[16:], sequence)
	binary.LittleEndian.PutUint64(b[nameBytes:], xxh3.Hash(b[:nameBytes]))
}

// parseName reports false where there is no such name, or it is damaged.
func parseName(b []byte, magic string) (bytes int, sequence uint64, ok bool) {
	if len(b) < sector || string(b[:8]) != magic || binary.LittleEndian.Uint64(b[nameBytes:]) != xxh3.Hash(b[:nameBytes]) {
		return 0, 0, false
	}
	return int(binary.LittleEndian.Uint64(b[8:])), binary.LittleEndian.Uint64(b[16:]), true
}

// sectors rounds up.
func sectors(n int) int { return (n + sector - 1) / sector * sector }

// aligned returns memory that a file can be read into and written from past the page cache.
func aligned(n int) []byte { return fromSector(make([]byte, n+sector))[:n:n] }

// fromSector is b from the first address on that is a multiple of a sector.
func fromSector(b []byte) []byte { return b[-int(uintptr(unsafe.Pointer(&b[0])))&(sector-1):] }

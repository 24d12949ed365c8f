package bulk

import (
	"encoding/binary"
	"hash"
	"hash/crc32"

	"github.com/zeebo/xxh3"
)

// SealBytes is what a sealed chunk ends with: a checksum of the bytes before, big-endian, which the receiver can take too.
const SealBytes = 8

func sealOf(chunk []byte) uint64 { return binary.BigEndian.Uint64(chunk[len(chunk)-SealBytes:]) }

// sealIntact reports whether a chunk has the seal that it should, by a sum that was not begun.
func sealIntact(chunk []byte, sum hash.Hash64) bool {
	if len(chunk) < SealBytes {
		return false
	}
	_, _ = sum.Write(chunk[:len(chunk)-SealBytes])
	return sum.Sum64() == sealOf(chunk)
}

// sums take the sum of a chunk bit by bit, by the kind of its frame.
type sums struct {
	header
	left int // bytes that are summed still
	crc  uint32
	hash hash.Hash64 // nil: it is a CRC
}

// newSums is given the sum of a sealed chunk.
func newSums(h header, seal hash.Hash64) *sums {
	s := &sums{header: h, left: int(h.length)}
	switch h.kind {
	case hashed:
		s.hash = xxh3.New()
	case sealed:
		s.left -= SealBytes
		s.hash = seal
	}
	return s
}

func (s *sums) add(b []byte) {
	b = b[:min(len(b), s.left)]
	s.left -= len(b)
	if s.hash != nil {
		_, _ = s.hash.Write(b)
	} else {
		s.crc = crc32.Update(s.crc, castagnoli, b)
	}
}

// match reports whether the whole chunk has the sum that was sent with it.
func (s *sums) match(chunk []byte) bool {
	if s.kind == sealed {
		return s.hash.Sum64() == sealOf(chunk)
	}
	return s.value() == s.sum
}

// value is the sum as a header has it.
func (s *sums) value() uint32 {
	if s.hash != nil {
		return uint32(s.hash.Sum64())
	}
	return s.crc
}

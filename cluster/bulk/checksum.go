package bulk

import (
	"encoding/binary"
	"hash"
	"hash/crc32"

	"github.com/zeebo/xxh3"
)

// SealBytes is the length of the seal at the end of a sealed chunk: a big-endian checksum of the
// bytes before it, which the receiver can compute too.
const SealBytes = 8

func sealOf(chunk []byte) uint64 { return binary.BigEndian.Uint64(chunk[len(chunk)-SealBytes:]) }

// sealIntact reports whether a chunk has the right seal. sum must be unused.
func sealIntact(chunk []byte, sum hash.Hash64) bool {
	if len(chunk) < SealBytes {
		return false
	}
	_, _ = sum.Write(chunk[:len(chunk)-SealBytes])
	return sum.Sum64() == sealOf(chunk)
}

// chunkSum computes the sum of a chunk incrementally, as its frame's kind requires.
type chunkSum struct {
	header
	left int // bytes not summed yet
	crc  uint32
	hash hash.Hash64 // nil means CRC
}

// newChunkSum returns the sum for a frame. seal is the hash of a sealed chunk.
func newChunkSum(h header, seal hash.Hash64) *chunkSum {
	s := &chunkSum{header: h, left: int(h.length)}
	switch h.kind {
	case hashed:
		s.hash = xxh3.New()
	case sealed:
		s.left -= SealBytes
		s.hash = seal
	}
	return s
}

func (s *chunkSum) add(b []byte) {
	b = b[:min(len(b), s.left)]
	s.left -= len(b)
	if s.hash != nil {
		_, _ = s.hash.Write(b)
	} else {
		s.crc = crc32.Update(s.crc, castagnoli, b)
	}
}

// match reports whether the complete chunk matches the sum in its frame.
func (s *chunkSum) match(chunk []byte) bool {
	if s.kind == sealed {
		return s.hash.Sum64() == sealOf(chunk)
	}
	return s.value() == s.sum
}

// value returns the sum as a header holds it.
func (s *chunkSum) value() uint32 {
	if s.hash != nil {
		return uint32(s.hash.Sum64())
	}
	return s.crc
}

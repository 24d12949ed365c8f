package bulk

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/zeebo/xxh3"
)

// SealBytes is what a sealed chunk ends with: the XXH3 of the bytes before, big-endian, under a seed that both sides know.
const SealBytes = 8

func sealOf(chunk []byte) uint64 { return binary.BigEndian.Uint64(chunk[len(chunk)-SealBytes:]) }

// sealIntact reports whether a chunk is sealed with that seed.
func sealIntact(chunk []byte, seed uint64) bool {
	return len(chunk) >= SealBytes && xxh3.HashSeed(chunk[:len(chunk)-SealBytes], seed) == sealOf(chunk)
}

// sums take the sum of a chunk bit by bit, by the kind of its frame.
type sums struct {
	header
	left int // bytes that are summed still
	crc  uint32
	hash *xxh3.Hasher // nil: it is a CRC
}

func newSums(h header, seed uint64) *sums {
	s := &sums{header: h, left: int(h.length)}
	switch h.kind {
	case hashed:
		s.hash = xxh3.New()
	case sealed:
		s.left -= SealBytes
		s.hash = xxh3.NewSeed(seed)
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
	switch s.kind {
	case hashed:
		return uint32(s.hash.Sum64()) == s.sum
	case sealed:
		return s.hash.Sum64() == sealOf(chunk)
	}
	return s.crc == s.sum
}

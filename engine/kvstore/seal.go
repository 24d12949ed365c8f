package kvstore

import (
	"context"
	"encoding/binary"
	"hash"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A seal is a checksum over the sums of successive pieces of a block. With it a receiver can verify
// that bytes are these pieces of that block.

// SealBytes is the length of a seal.
const SealBytes = 8

// seal returns the seal of pieces with the given sums, from byte lo on, of a block of the given
// length.
func seal(h kv.Hash, length, lo int, sums []uint64) uint64 {
	b := make([]byte, 0, 8*(maxPieces+1))
	for _, s := range sums {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	if lo > 0 || len(sums) < pieces(length) { // part of a block: include its position
		b = binary.LittleEndian.AppendUint64(b, uint64(lo))
	}
	return xxh3.HashSeed(b, h.Fingerprint64())
}

// Seal writes the seal of whole pieces into the last SealBytes of sealed. They start at byte lo of
// a block of the given length.
func Seal(h kv.Hash, length, lo int, sealed []byte) {
	end := len(sealed) - SealBytes
	binary.BigEndian.PutUint64(sealed[end:], seal(h, length, lo, sumRun(h, sealed[:end], pieceBytes(length))))
}

// ViewSealed is like ViewRange for the whole pieces in [lo, hi). It also passes their seal.
func ViewSealed(ctx context.Context, s Store, r *Reading, lo, hi int, use func(pieces, seal []byte) error) error {
	return s.ViewRange(ctx, r, lo, hi, func(b []byte) error {
		size := pieceBytes(r.Bytes)
		first := lo / size
		return use(
			b,
			binary.BigEndian.AppendUint64(nil, seal(r.Hash, r.Bytes, lo, r.sums[first:first+(len(b)+size-1)/size])),
		)
	})
}

// NewSealHash returns a hash that computes the seal of a block's pieces from byte lo on,
// incrementally. Its result equals what Seal writes.
func NewSealHash(h kv.Hash, length, lo int) hash.Hash64 {
	return &sealHash{hash: h, length: length, lo: lo, size: pieceBytes(length), piece: xxh3.NewSeed(h.Fingerprint64())}
}

// sealHash computes a seal incrementally.
type sealHash struct {
	hash       kv.Hash
	length, lo int
	size       int // size of a piece
	sums       []uint64
	piece      *xxh3.Hasher // hash of the received bytes of the next piece
	pieceLen   int          // number of these bytes
}

// Write implements hash.Hash.
func (s *sealHash) Write(b []byte) (n int, err error) {
	for n = len(b); len(b) > 0; {
		part := b[:min(len(b), s.size-s.pieceLen)]
		b = b[len(part):]
		if len(part) == s.size { // fast path for a whole piece
			s.sums = append(s.sums, xxh3.HashSeed(part, s.hash.Fingerprint64()))
			continue
		}
		_, _ = s.piece.Write(part)
		if s.pieceLen += len(part); s.pieceLen == s.size {
			s.end()
		}
	}
	return n, nil
}

func (s *sealHash) end() {
	s.sums, s.pieceLen = append(s.sums, s.piece.Sum64()), 0
	s.piece.Reset()
}

// Sum64 implements hash.Hash64. It ends the last piece.
func (s *sealHash) Sum64() uint64 {
	if s.pieceLen > 0 {
		s.end()
	}
	return seal(s.hash, s.length, s.lo, s.sums)
}

// Sum implements hash.Hash.
func (s *sealHash) Sum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, s.Sum64()) }

// Reset implements hash.Hash.
func (s *sealHash) Reset() { s.sums, s.pieceLen = nil, 0; s.piece.Reset() }

// Size implements hash.Hash.
func (s *sealHash) Size() int { return SealBytes }

// BlockSize implements hash.Hash.
func (s *sealHash) BlockSize() int { return s.size }

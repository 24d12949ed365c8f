package tier

import (
	"context"
	"encoding/binary"
	"hash"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A seal is a checksum over those of successive pieces of a block, all of them or some. Whoever gets both can tell whether they are these pieces
// of that block.

// SealBytes is the length of a seal.
const SealBytes = 8

// seal is that of the pieces from byte lo on of a block of so many bytes, which have these checksums.
func seal(h kv.Hash, length, lo int, sums []uint64) uint64 {
	b := make([]byte, 0, 8*(maxPieces+1))
	for _, s := range sums {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	if lo > 0 || len(sums) < pieces(length) { // not all: which of them
		b = binary.LittleEndian.AppendUint64(b, uint64(lo))
	}
	return xxh3.HashSeed(b, h.Short())
}

// Seal writes the seal of whole pieces behind them, into the last SealBytes of sealed: of those from byte lo on of a block of so many bytes.
func Seal(h kv.Hash, length, lo int, sealed []byte) {
	end := len(sealed) - SealBytes
	binary.BigEndian.PutUint64(sealed[end:], seal(h, length, lo, sumRun(h, sealed[:end], pieceBytes(length))))
}

// ViewSealed is ViewRange of the whole pieces from byte lo up to hi, and of their seal.
func ViewSealed(ctx context.Context, s Store, r *Reading, lo, hi int, use func(pieces, seal []byte) error) error {
	return s.ViewRange(ctx, r, lo, hi, func(b []byte) error {
		size := pieceBytes(r.Bytes)
		first := lo / size
		return use(b, binary.BigEndian.AppendUint64(nil, seal(r.Hash, r.Bytes, lo, r.sums[first:first+(len(b)+size-1)/size])))
	})
}

// NewSum takes the seal of pieces of a block of so many bytes as their bytes come, from byte lo of it on: that which Seal writes behind them.
func NewSum(h kv.Hash, length, lo int) hash.Hash64 {
	return &summing{hash: h, length: length, lo: lo, size: pieceBytes(length), piece: xxh3.NewSeed(h.Short())}
}

// summing are pieces of which the first bytes have come.
type summing struct {
	hash       kv.Hash
	length, lo int
	size       int // of a piece
	sums       []uint64
	piece      *xxh3.Hasher // of those bytes of the next piece that have come
	come       int          // so many
}

// Write implements hash.Hash.
func (s *summing) Write(b []byte) (n int, err error) {
	for n = len(b); len(b) > 0; {
		part := b[:min(len(b), s.size-s.come)]
		b = b[len(part):]
		if len(part) == s.size { // as ever, but faster
			s.sums = append(s.sums, xxh3.HashSeed(part, s.hash.Short()))
			continue
		}
		_, _ = s.piece.Write(part)
		if s.come += len(part); s.come == s.size {
			s.end()
		}
	}
	return n, nil
}

func (s *summing) end() {
	s.sums, s.come = append(s.sums, s.piece.Sum64()), 0
	s.piece.Reset()
}

// Sum64 implements hash.Hash64. It ends the last piece.
func (s *summing) Sum64() uint64 {
	if s.come > 0 {
		s.end()
	}
	return seal(s.hash, s.length, s.lo, s.sums)
}

// Sum implements hash.Hash.
func (s *summing) Sum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, s.Sum64()) }

// Reset implements hash.Hash.
func (s *summing) Reset() { s.sums, s.come = nil, 0; s.piece.Reset() }

// Size implements hash.Hash.
func (s *summing) Size() int { return SealBytes }

// BlockSize implements hash.Hash.
func (s *summing) BlockSize() int { return s.size }

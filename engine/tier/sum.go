package tier

import (
	"context"
	"encoding/binary"
	"hash"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// NewSum takes the checksum of a block of so many bytes as its bytes come: that which Seal writes behind it.
func NewSum(h kv.Hash, length int) hash.Hash64 {
	return &summing{hash: h, size: pieceBytes(length), piece: xxh3.NewSeed(h.Short())}
}

// ViewSealed is View of a block and of the checksum that Seal writes behind it.
func (a *Arena) ViewSealed(ctx context.Context, slot int32, h kv.Hash, bytes int, use func(block, seal []byte) error) error {
	r := &Reading{Slot: slot, Hash: h, Bytes: bytes}
	return a.ViewRange(ctx, r, 0, bytes, func(block []byte) error {
		return use(block, binary.BigEndian.AppendUint64(nil, sum(h, r.sums)))
	})
}

// summing is a block of which the first bytes have come.
type summing struct {
	hash  kv.Hash
	size  int // of a piece
	sums  []uint64
	piece *xxh3.Hasher // of those bytes of the next piece that have come
	come  int          // so many
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
	return sum(s.hash, s.sums)
}

// Sum implements hash.Hash.
func (s *summing) Sum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, s.Sum64()) }

// Reset implements hash.Hash.
func (s *summing) Reset() { s.sums, s.come = nil, 0; s.piece.Reset() }

// Size implements hash.Hash.
func (s *summing) Size() int { return SealBytes }

// BlockSize implements hash.Hash.
func (s *summing) BlockSize() int { return s.size }

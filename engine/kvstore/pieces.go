package kvstore

import (
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A block is checksummed in pieces, so that a range can be verified and used before the rest is
// read. The size of the pieces depends only on the block's length, not on its content. The block's
// own sum is computed over the sums of its pieces.

// maxPieces limits a block's sums to one kilobyte, and to a 512th of the block.
const maxPieces = 128

// pieceBytes returns the size of a block's pieces but the last: the smallest power of two of
// sectors that gives at most maxPieces.
func pieceBytes(length int) int {
	size := sector
	for length > maxPieces*size {
		size *= 2
	}
	return size
}

// pieces returns the number of pieces of a block.
func pieces(length int) int { return (length + pieceBytes(length) - 1) / pieceBytes(length) }

// Reading is the state of reading a block range by range, by one goroutine at a time.
type Reading struct {
	Slot  int32
	Hash  kv.Hash
	Bytes int // size of the block

	sums []uint64 // checksums of the pieces; nil until known
}

// wholePieces widens a range of the block to whole pieces.
func (r *Reading) wholePieces(from, to int) (lo, hi int) { return wholePieces(r.Bytes, from, to) }

// wholePieces widens a range of a block of the given length to whole pieces.
func wholePieces(length, from, to int) (lo, hi int) {
	size := pieceBytes(length)
	return from / size * size, min((to+size-1)/size*size, length)
}

// check rejects a range that is not within the block.
func (r *Reading) check(from, to int) error {
	if from < 0 || from >= to || to > r.Bytes {
		return fmt.Errorf("bytes [%d, %d) out of a block of %d", from, to, r.Bytes)
	}
	return nil
}

// verify checks the sums of b, which holds entire pieces of the block and starts at its byte lo.
func (r *Reading) verify(b []byte, lo int) error {
	size := pieceBytes(r.Bytes)
	for i := lo / size; len(b) > 0; i++ {
		n := min(size, len(b))
		if xxh3.HashSeed(b[:n], r.Hash.Fingerprint64()) != r.sums[i] {
			return fmt.Errorf("checksum of piece %d: %w", i, ErrDamaged)
		}
		b = b[n:]
	}
	return nil
}

// sumPieces returns the checksums of a block's pieces. They depend on the block's hash, so another
// block's bytes never match.
func sumPieces(h kv.Hash, block []byte) []uint64 { return sumRun(h, block, pieceBytes(len(block))) }

// sumRun returns the checksums of pieces of the given size, the last of which may be shorter.
func sumRun(h kv.Hash, b []byte, size int) []uint64 {
	sums := make([]uint64, 0, (len(b)+size-1)/size)
	for piece := range slices.Chunk(b, size) {
		sums = append(sums, xxh3.HashSeed(piece, h.Fingerprint64()))
	}
	return sums
}

// copyPieces copies a block and returns its checksums. It works piece by piece, so that the data is
// still in the CPU cache.
func copyPieces(to, from []byte, h kv.Hash) []uint64 {
	sums, size := make([]uint64, 0, pieces(len(from))), pieceBytes(len(from))
	for len(from) > 0 {
		n := copy(to[:min(len(from), size)], from)
		sums = append(sums, xxh3.HashSeed(to[:n], h.Fingerprint64()))
		to, from = to[n:], from[n:]
	}
	return sums
}

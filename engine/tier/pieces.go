package tier

import (
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// A block is summed in pieces, so that a range of it can be checked, and used, before the rest was read. What a block is made of
// means nothing here: how large its pieces are depends on its length alone. The sum of all is one over the sums of the pieces.

// maxPieces bounds a block's sums: at most a kilobyte, and never more than a 512th of the block.
const maxPieces = 128

// pieceBytes is how large the pieces of a block are, but for the last: the smallest power of two of sectors of which there are not too many.
func pieceBytes(length int) int {
	size := sector
	for length > maxPieces*size {
		size *= 2
	}
	return size
}

// pieces is how many a block has.
func pieces(length int) int { return (length + pieceBytes(length) - 1) / pieceBytes(length) }

// Reading is a block that is read range by range, by one goroutine at a time.
type Reading struct {
	Slot  int32
	Hash  kv.Hash
	Bytes int // of the block

	sums []uint64 // of its pieces; nil until they are known
}

// cover widens a range of the block to whole pieces.
func (r *Reading) cover(from, to int) (lo, hi int) { return cover(r.Bytes, from, to) }

// cover widens a range of a block of so many bytes to whole pieces.
func cover(length, from, to int) (lo, hi int) {
	size := pieceBytes(length)
	return from / size * size, min((to+size-1)/size*size, length)
}

// check refuses a range that is not in the block.
func (r *Reading) check(from, to int) error {
	if from < 0 || from >= to || to > r.Bytes {
		return fmt.Errorf("bytes [%d, %d) of a block of %d", from, to, r.Bytes)
	}
	return nil
}

// intact makes sure that b, which is whole pieces from byte lo of the block on, is what was written there.
func (r *Reading) intact(b []byte, lo int) error {
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

// sumPieces are the checksums of a block's pieces. They depend on which block they are of, so that the bytes of one are never right for another.
func sumPieces(h kv.Hash, block []byte) []uint64 { return sumRun(h, block, pieceBytes(len(block))) }

// sumRun are the checksums of pieces of that size, the last of which may be shorter.
func sumRun(h kv.Hash, b []byte, size int) []uint64 {
	sums := make([]uint64, 0, (len(b)+size-1)/size)
	for piece := range slices.Chunk(b, size) {
		sums = append(sums, xxh3.HashSeed(piece, h.Fingerprint64()))
	}
	return sums
}

// copyPieces is sumPieces of what it copies, piece by piece, so that what is summed is in the processor's cache still.
func copyPieces(to, from []byte, h kv.Hash) []uint64 {
	sums, size := make([]uint64, 0, pieces(len(from))), pieceBytes(len(from))
	for len(from) > 0 {
		n := copy(to[:min(len(from), size)], from)
		sums = append(sums, xxh3.HashSeed(to[:n], h.Fingerprint64()))
		to, from = to[n:], from[n:]
	}
	return sums
}

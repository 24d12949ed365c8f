package kvstore

import (
	"fmt"
	"hash"
	"math"

	"troupe/core/kv"
)

// Chunks describes how blocks are sent to another node. Chunk p*Blocks + i is part p of block i, so
// that the first layers of all blocks come first. A chunk consists of the whole pieces that cover
// its part, and their seal.
type Chunks struct {
	Blocks     int // number of requested blocks
	BlockBytes int
	PartBytes  int // size of each part but the last; 0 means whole blocks
}

// maxParts is the maximum number of parts per block.
const maxParts = 1024

// NewChunks validates sizes that another node requested.
func NewChunks(blocks int, blockBytes, partBytes uint64) (Chunks, error) {
	if blockBytes < 1 || blockBytes > math.MaxInt32 || partBytes > 0 && blockBytes/partBytes >= maxParts {
		return Chunks{}, fmt.Errorf("blocks of %d bytes in parts of %d: limits are 1 to %d bytes and %d parts",
			blockBytes, partBytes, math.MaxInt32, maxParts)
	}
	return Chunks{Blocks: blocks, BlockBytes: int(blockBytes), PartBytes: int(min(partBytes, blockBytes))}, nil
}

// Parts returns the number of parts per block.
func (c Chunks) Parts() int {
	if c.PartBytes == 0 {
		return 1
	}
	return (c.BlockBytes + c.PartBytes - 1) / c.PartBytes
}

// Count returns the number of chunks.
func (c Chunks) Count() int { return c.Parts() * c.Blocks }

// BlockPart returns the block and the part that a chunk holds.
func (c Chunks) BlockPart(index uint32) (block, part int) {
	return int(index) % c.Blocks, int(index) / c.Blocks
}

// PartRange returns the range of a block's bytes that a part covers.
func (c Chunks) PartRange(part int) (from, to int) {
	if c.PartBytes == 0 {
		return 0, c.BlockBytes
	}
	return part * c.PartBytes, min((part+1)*c.PartBytes, c.BlockBytes)
}

// PieceRange returns the range of a block's bytes that the chunks of a part hold, without the seal.
func (c Chunks) PieceRange(part int) (lo, hi int) {
	from, to := c.PartRange(part)
	return wholePieces(c.BlockBytes, from, to)
}

// Bytes returns the size of the largest chunk.
func (c Chunks) Bytes() (most int) {
	for part := range c.Parts() {
		lo, hi := c.PieceRange(part)
		most = max(most, hi-lo+SealBytes)
	}
	return most
}

// SendOrder returns the chunks of the first blocks, in the order of sending.
func (c Chunks) SendOrder(blocks int) []uint32 {
	all := make([]uint32, 0, c.Parts()*blocks)
	for part := range c.Parts() {
		for i := range blocks {
			all = append(all, uint32(part*c.Blocks+i))
		}
	}
	return all
}

// SealHash returns a hash that computes the seal of a part of a block incrementally.
func (c Chunks) SealHash(h kv.Hash, part int) hash.Hash64 {
	lo, _ := c.PieceRange(part)
	return NewSealHash(h, c.BlockBytes, lo)
}

// Trim returns the part within a verified chunk, or nil if the chunk has another length.
func (c Chunks) Trim(part int, sealed []byte) []byte {
	from, to := c.PartRange(part)
	lo, hi := c.PieceRange(part)
	if len(sealed) != hi-lo+SealBytes {
		return nil
	}
	return sealed[from-lo : to-lo]
}

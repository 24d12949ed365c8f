package tier

import (
	"fmt"
	"hash"
	"math"

	"troupe/core/kv"
)

// Chunks is how blocks travel to another node: chunk p*Blocks + i is part p of block i, so that the first layers of all come first. It is made of the whole pieces
// that hold the part, and of their seal.
type Chunks struct {
	Blocks     int // that were asked for
	BlockBytes int
	PartBytes  int // of each part but the last; 0: blocks travel whole
}

// maxParts is what a block travels in at the most.
const maxParts = 1024

// NewChunks refuses what nobody would ask for.
func NewChunks(blocks int, blockBytes, partBytes uint64) (Chunks, error) {
	if blockBytes < 1 || blockBytes > math.MaxInt32 || partBytes > 0 && blockBytes/partBytes >= maxParts {
		return Chunks{}, fmt.Errorf("blocks of %d bytes in parts of %d; they have 1 to %d bytes, and travel in %d parts at the most", blockBytes, partBytes, math.MaxInt32, maxParts)
	}
	return Chunks{Blocks: blocks, BlockBytes: int(blockBytes), PartBytes: int(min(partBytes, blockBytes))}, nil
}

// Parts is in how many parts a block travels.
func (c Chunks) Parts() int {
	if c.PartBytes == 0 {
		return 1
	}
	return (c.BlockBytes + c.PartBytes - 1) / c.PartBytes
}

// Count is how many chunks there are.
func (c Chunks) Count() int { return c.Parts() * c.Blocks }

// Of is which part of which block a chunk has.
func (c Chunks) Of(index uint32) (block, part int) {
	return int(index) % c.Blocks, int(index) / c.Blocks
}

// Part is which bytes of a block a part is.
func (c Chunks) Part(part int) (from, to int) {
	if c.PartBytes == 0 {
		return 0, c.BlockBytes
	}
	return part * c.PartBytes, min((part+1)*c.PartBytes, c.BlockBytes)
}

// Pieces is which bytes of a block a chunk of that part has, before the seal.
func (c Chunks) Pieces(part int) (lo, hi int) {
	from, to := c.Part(part)
	return cover(c.BlockBytes, from, to)
}

// Bytes is the size of the largest chunk.
func (c Chunks) Bytes() (most int) {
	for part := range c.Parts() {
		lo, hi := c.Pieces(part)
		most = max(most, hi-lo+SealBytes)
	}
	return most
}

// InOrder are the chunks of the leading blocks, in the order in which they are sent.
func (c Chunks) InOrder(blocks int) []uint32 {
	all := make([]uint32, 0, c.Parts()*blocks)
	for part := range c.Parts() {
		for i := range blocks {
			all = append(all, uint32(part*c.Blocks+i))
		}
	}
	return all
}

// Sum takes the seal of the chunk of a part of a block as its bytes come.
func (c Chunks) Sum(h kv.Hash, part int) hash.Hash64 {
	lo, _ := c.Pieces(part)
	return NewSum(h, c.BlockBytes, lo)
}

// Trim is the part alone out of a chunk of it that was checked; nil where that is of another length.
func (c Chunks) Trim(part int, sealed []byte) []byte {
	from, to := c.Part(part)
	lo, hi := c.Pieces(part)
	if len(sealed) != hi-lo+SealBytes {
		return nil
	}
	return sealed[from-lo : to-lo]
}

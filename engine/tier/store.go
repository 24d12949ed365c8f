package tier

import (
	"context"
	"errors"

	"github.com/zeebo/xxh3"

	"troupe/core/kv"
)

// Store is the slots of one tier.
type Store interface {
	// Slots is how many there are, from 0.
	Slots() int
	// SlotBytes is the size of the largest block.
	SlotBytes() int
	// Write puts a block into a slot. Where it fails, the slot is to be taken for empty.
	Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error
	// Read fills block with what Write was given for h. It returns ErrDamaged where the slot does not hold that.
	Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error
	// Erase makes a slot hold nothing.
	Erase(ctx context.Context, slot int32) error
	Close() error
}

// ErrDamaged: a slot does not hold the block that it should. The block has to be computed again.
var ErrDamaged = errors.New("slot does not hold the block")

// Held is a block that an earlier life of a store left in a slot.
type Held struct {
	Slot int32
	Hash kv.Hash
}

// sum is the checksum of a block's bytes. It depends on which block they are of, so that the bytes of one are never right for another.
func sum(h kv.Hash, block []byte) uint64 { return xxh3.HashSeed(block, h.Short()) }

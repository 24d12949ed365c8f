package tier

import (
	"context"
	"errors"

	"troupe/core/kv"
)

// Store is the slots of one tier.
type Store interface {
	// Slabs is how the store is cut. What a slot's number means depends on the size of its block.
	Slabs() kv.Slabs
	// SlotBytes is the size of the largest block.
	SlotBytes() int
	// Held is what the slots hold, each block once, oldest first; of what an earlier life wrote as well.
	Held() []Held
	// Write puts a block into a slot. Where it fails, the slot is to be taken for empty. Where the slot's slab is for blocks of another size, all that
	// this holds is gone.
	Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error
	// Read fills block with what Write was given for h. It returns ErrDamaged where the slot does not hold that.
	Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error
	// Fill is Write of what from puts into the memory that it is given, which is what the slot is, or what is written to it next.
	Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func(block []byte) error) error
	// View is Read without a copy: use is given the block, once it is sure that it is the one, for as long as it runs.
	View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func(block []byte) error) error
	// ViewRange is View of bytes [from, to) of the block, checked by themselves. It does not tell of damage elsewhere in the block.
	ViewRange(ctx context.Context, r *Reading, from, to int, use func(part []byte) error) error
	// Depth is how many blocks are worth copying at once.
	Depth() int
	// Erase makes slots hold nothing, also for a later life.
	Erase(ctx context.Context, slots []int32) error
	Close() error
}

// ErrDamaged: a slot does not hold the block that it should. The block has to be computed again.
var ErrDamaged = errors.New("slot does not hold the block")

// Held is a block in a slot.
type Held struct {
	Slot  int32
	Hash  kv.Hash
	Bytes int
}

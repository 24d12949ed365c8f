package kvstore

import (
	"context"
	"errors"

	"troupe/core/kv"
)

// Store is the set of slots of one tier.
type Store interface {
	// Slabs returns the store's layout. The location of a slot depends on the size of its block.
	Slabs() kv.Slabs
	// SlotBytes returns the size of the largest block.
	SlotBytes() int
	// Held returns the blocks in the slots, each block once, oldest first, including those written
	// before a restart.
	Held() []Held
	// Write stores a block in a slot. If it fails, the slot counts as empty. If the slot's slab is
	// for blocks of another size, all blocks in the slab are dropped.
	Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error
	// Read fills block with what Write stored for h. It returns ErrDamaged if the slot does not
	// hold it.
	Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error
	// Fill is like Write, for a block that from puts into the given memory. That memory is the
	// slot itself or a buffer that is then written to the slot.
	Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func(block []byte) error) error
	// View is like Read without a copy. It calls use with the verified block, which is valid until
	// use returns.
	View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func(block []byte) error) error
	// ViewRange is like View for bytes [from, to) of the block, which are verified separately. It
	// does not detect damage elsewhere in the block.
	ViewRange(ctx context.Context, r *Reading, from, to int, use func(part []byte) error) error
	// Depth returns the number of blocks worth copying concurrently.
	Depth() int
	// Erase empties slots, permanently.
	Erase(ctx context.Context, slots []int32) error
	Close() error
}

// ErrDamaged means that a slot does not hold the expected block. The block must be recomputed.
var ErrDamaged = errors.New("slot does not hold the block")

// Held is a block in a slot.
type Held struct {
	Slot  int32
	Hash  kv.Hash
	Bytes int
}

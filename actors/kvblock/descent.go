package kvblock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
)

const (
	askWithin = 2 * time.Second // a tier may take to answer
	restFor   = time.Second     // after blocks could not be copied down
	together  = 128             // blocks that are reserved, copied and committed at once, at most
)

// left is how a block's way down ended.
type left int

const (
	stays  left = iota // it could not be copied now
	below              // the lower tier has it
	broken             // it is not what it was
)

// departed and rested are notes to self.
type (
	departed struct {
		incarnation uint64
		blocks      []kv.Departure
		left        []left // of each block
		err         error
	}
	rested struct{ incarnation uint64 }
)

// descent copies blocks to the tier below: reserve, copy, commit.
type descent struct {
	name   string // unique
	tier   string
	copied func(from, to string, bytes int, took time.Duration)
	from   tier.Store
	to     Lower
	root   *actor.RootContext
	blocks []kv.Departure // those of one size follow each other
}

// run returns how each block fared. After an error the blocks that follow stay where they are.
func (d descent) run(ctx context.Context) (result []left, err error) {
	for len(result) < len(d.blocks) && err == nil {
		next := d.blocks[len(result):]
		n := 1
		for n < min(together, len(next)) && next[n].Size == next[0].Size {
			n++
		}
		var some []left
		some, err = d.move(ctx, fmt.Sprintf("%s-%d", d.name, len(result)), next[:n])
		result = append(result, some...)
	}
	if err != nil {
		err = fmt.Errorf("to tier %s: %w", d.to.Tier.GetId(), err)
	}
	return result, err
}

// move reserves slots below for blocks of one size, and commits or aborts them whatever happens in between.
func (d descent) move(ctx context.Context, request string, blocks []kv.Departure) ([]left, error) {
	result, size := make([]left, len(blocks)), blocks[0].Size
	commit := &messages.CommitBlocks{RequestId: request}
	defer func() { d.root.Send(d.to.Tier, commit) }()
	at, hashes := make(map[kv.Hash]int, len(blocks)), make([][]byte, len(blocks))
	for i, b := range blocks {
		at[b.Hash], hashes[i] = i, b.Hash[:]
	}
	answer, err := d.root.RequestFuture(d.to.Tier, &messages.ReserveSlots{RequestId: request, Hashes: hashes, BlockBytes: uint64(size)}, askWithin).Result()
	if err != nil {
		return result, err
	}
	reserved := answer.(*messages.ReserveSlotsResult).GetReserved()
	for _, h := range reserved.GetHeld() {
		result[at[kv.Hash(h)]] = below
	}
	moves := make([]tier.Move, len(reserved.GetSlots()))
	for i, slot := range reserved.GetSlots() {
		h := kv.Hash(slot.GetHash())
		moves[i] = tier.Move{Block: blocks[at[h]].Slot, Slot: int32(slot.GetIndex()), Hash: h}
	}
	err = tier.Across(ctx, d.from, d.to.Store, size, moves)
	var written [][]byte
	for _, m := range moves {
		switch {
		case m.Came:
			d.copied(d.tier, d.to.Name, size, m.Took)
			result[at[m.Hash]], written = below, append(written, m.Hash[:])
		case errors.Is(m.Err, tier.ErrDamaged):
			result[at[m.Hash]] = broken
		}
	}
	commit = &messages.CommitBlocks{RequestId: request, Written: written}
	if err == nil && len(reserved.GetHeld())+len(moves) < len(blocks) {
		err = fmt.Errorf("no room for %d of %d blocks. %s", len(blocks)-len(reserved.GetHeld())-len(moves), len(blocks), answer.(*messages.ReserveSlotsResult).GetRefused().GetDetail())
	}
	return result, err
}

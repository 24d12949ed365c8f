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

// descent copies blocks to the tier below: reserve, copy, commit.
type descent struct {
	name   string // unique
	tier   string
	copied tier.Report
	from   tier.Store
	to     Lower
	root   *actor.RootContext
	blocks []kv.Departure // of one size
}

// run returns how each block fared. It reserves slots below, and commits or aborts them whatever happens in between.
func (d descent) run(ctx context.Context) (result []left, err error) {
	size, commit := d.blocks[0].Size, &messages.CommitBlocks{RequestId: d.name}
	result = make([]left, len(d.blocks))
	defer func() {
		d.root.Send(d.to.Tier, commit)
		if err != nil {
			err = fmt.Errorf("to tier %s: %w", d.to.Tier.GetId(), err)
		}
	}()
	at, hashes := make(map[kv.Hash]int, len(d.blocks)), make([][]byte, len(d.blocks))
	for i, b := range d.blocks {
		at[b.Hash], hashes[i] = i, b.Hash[:]
	}
	answer, err := d.root.RequestFuture(d.to.Tier, &messages.ReserveSlots{RequestId: d.name, Hashes: hashes, BlockBytes: uint64(size)}, askWithin).Result()
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
		moves[i] = tier.Move{Block: d.blocks[at[h]].Slot, Slot: int32(slot.GetIndex()), Hash: h}
	}
	err = tier.CopySlots(ctx, d.from, d.to.Store, size, moves)
	var written [][]byte
	for _, m := range moves {
		d.copied(d.tier, d.to.Name, size, m)
		switch {
		case m.Done:
			result[at[m.Hash]], written = below, append(written, m.Hash[:])
		case errors.Is(m.Err, tier.ErrDamaged):
			result[at[m.Hash]] = broken
		}
	}
	commit = &messages.CommitBlocks{RequestId: d.name, Written: written}
	if err == nil && len(reserved.GetHeld())+len(moves) < len(d.blocks) {
		err = fmt.Errorf("no room for %d of %d blocks. %s", len(d.blocks)-len(reserved.GetHeld())-len(moves), len(d.blocks), answer.(*messages.ReserveSlotsResult).GetRefused().GetDetail())
	}
	return result, err
}

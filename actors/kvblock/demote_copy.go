package kvblock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	core "troupe/core/tier"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// answerTimeout is how long the tier below has to respond.
const answerTimeout = 2 * time.Second

// demoteJob copies blocks to the tier below: it reserves slots, copies the blocks, and commits.
type demoteJob struct {
	name   string // unique for each job
	tier   string
	report kvstore.Report
	from   kvstore.Store
	to     Lower
	root   *actor.RootContext
	blocks []kv.Demotion // blocks of one size
}

// run returns the outcome of each block. It reserves slots in the tier below, and always commits or
// aborts the reservation.
func (d demoteJob) run(ctx context.Context) (result []core.Outcome, err error) {
	size, commit := d.blocks[0].Size, &messages.CommitBlocks{RequestId: d.name}
	result = make([]core.Outcome, len(d.blocks))
	defer func() {
		d.root.Send(d.to.Tier, commit)
		if err != nil {
			err = fmt.Errorf("demote to tier %s: %w", d.to.Tier.GetId(), err)
		}
	}()
	at, hashes := make(map[kv.Hash]int, len(d.blocks)), make([][]byte, len(d.blocks))
	for i, b := range d.blocks {
		at[b.Hash], hashes[i] = i, b.Hash[:]
	}
	request := &messages.ReserveSlots{RequestId: d.name, Hashes: hashes, BlockBytes: uint64(size)}
	answer, err := supervise.Request(d.root, d.to.Tier, request, answerTimeout).Result()
	if err != nil {
		return result, err
	}
	reserved := answer.(*messages.ReserveSlotsResult).GetReserved()
	for _, h := range reserved.GetHeld() {
		result[at[kv.Hash(h)]] = core.Stored
	}
	moves := make([]kvstore.Move, len(reserved.GetSlots()))
	for i, slot := range reserved.GetSlots() {
		h := kv.Hash(slot.GetHash())
		moves[i] = kvstore.Move{Block: d.blocks[at[h]].Slot, Slot: int32(slot.GetIndex()), Hash: h}
	}
	err = kvstore.CopySlots(ctx, d.from, d.to.Store, size, moves)
	var written [][]byte
	for _, m := range moves {
		d.report(d.tier, d.to.Name, size, m)
		switch {
		case m.Done:
			result[at[m.Hash]], written = core.Stored, append(written, m.Hash[:])
		case errors.Is(m.Err, kvstore.ErrDamaged):
			result[at[m.Hash]] = core.DamagedSource
		}
	}
	commit = &messages.CommitBlocks{RequestId: d.name, Written: written}
	if err == nil && len(reserved.GetHeld())+len(moves) < len(d.blocks) {
		err = fmt.Errorf("no room for %d of %d blocks. %s", len(d.blocks)-len(reserved.GetHeld())-len(moves),
			len(d.blocks), answer.(*messages.ReserveSlotsResult).GetRefused().GetDetail())
	}
	return result, err
}

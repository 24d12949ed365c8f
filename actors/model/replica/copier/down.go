package copier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// reserveTimeout is the maximum time for the tier to reserve slots.
const reserveTimeout = 2 * time.Second

// downDone is a message to self.
type downDone struct {
	incarnation uint64
	result      *messages.CopyBlocksDownResult
}

// onCopyDown starts copying blocks to a tier.
func (c *copier) onCopyDown(ctx actor.Context, msg *messages.CopyBlocksDown) {
	i := slices.IndexFunc(c.Tiers, func(t Tier) bool { return t.Name == msg.GetTier() })
	if msg.GetIncarnation() != c.incarnation || i < 0 {
		return
	}
	d := down{request: msg.GetRequestId(), root: ctx.ActorSystem().Root, from: c.down, to: c.Tiers[i],
		blocks: msg.GetBlocks(), namespace: kv.Hash(msg.GetSpace()), copied: c.OnCopied}
	incarnation := c.incarnation
	supervise.Job(ctx, c.life, d.run, func(stored []bool, err error) any {
		result := &messages.CopyBlocksDownResult{Copy: msg.GetCopy(), Stored: stored}
		if err != nil {
			result.Detail = err.Error()
		}
		return &downDone{incarnation, result}
	})
}

func (c *copier) onDownDone(ctx actor.Context, msg *downDone) {
	if msg.incarnation == c.incarnation { // otherwise CopierReady has ended the copy
		ctx.Send(ctx.Parent(), msg.result)
	}
}

// down copies blocks to a tier: it reserves slots, copies, and commits.
type down struct {
	request   string
	root      *actor.RootContext
	from      Blocks
	to        Tier
	blocks    []*messages.Block
	namespace kv.Hash
	copied    kvstore.Report
}

// run returns for each block whether the tier has it now.
func (d down) run(ctx context.Context) (stored []bool, err error) {
	commit := &messages.CommitBlocks{RequestId: d.request}
	defer func() { d.root.Send(d.to.Actor, commit) }()
	stored = make([]bool, len(d.blocks))
	at := make(map[kv.Hash]int, len(d.blocks))
	hashes := make([][]byte, len(d.blocks))
	for i, b := range d.blocks {
		h := kv.Hash(b.GetHash()).Namespaced(d.namespace)
		at[h], hashes[i] = i, h[:]
	}
	reserved, err := d.reserve(hashes)
	if err != nil {
		return stored, err
	}
	for _, h := range reserved.GetHeld() {
		stored[at[kv.Hash(h)]] = true
	}
	moves := make([]kvstore.Move, len(reserved.GetSlots()))
	for i, slot := range reserved.GetSlots() {
		h := kv.Hash(slot.GetHash())
		moves[i] = kvstore.Move{Block: int32(d.blocks[at[h]].GetIndex()), Slot: int32(slot.GetIndex()), Hash: h}
	}
	err = kvstore.Offload(ctx, d.from, d.to.Store, moves)
	var written [][]byte
	for _, m := range moves {
		d.copied(hbmTier, d.to.Name, d.from.BlockBytes(), m)
		if m.Done {
			stored[at[m.Hash]], written = true, append(written, m.Hash[:])
		}
	}
	commit = &messages.CommitBlocks{RequestId: d.request, Written: written}
	return stored, err
}

// reserve asks the tier for slots.
func (d down) reserve(hashes [][]byte) (*messages.SlotsReserved, error) {
	answer, err := supervise.Request(d.root, d.to.Actor, &messages.ReserveSlots{
		RequestId: d.request, Hashes: hashes, BlockBytes: uint64(d.from.BlockBytes()),
	}, reserveTimeout).Result()
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", d.to.Name, err)
	}
	result := answer.(*messages.ReserveSlotsResult)
	if refused := result.GetRefused(); refused != nil {
		return nil, fmt.Errorf("tier %s: %s", d.to.Name, refused.GetDetail())
	}
	return result.GetReserved(), nil
}

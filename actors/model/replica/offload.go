package replica

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// offloadDone and offloadRetry are messages to self.
type (
	offloadDone struct {
		incarnation uint64
		blocks      []kv.Committed
		below       []bool // by block: the tier has it now
		err         error
	}
	offloadRetry struct{ incarnation uint64 }
)

// burst returns the maximum number of blocks in one offload.
func (r *replica) burst() int { return max(1, int(r.model.GetKvBlocks())/burstShare) }

// offloadAboveWatermark offloads blocks ahead of need if HBM is filled above the watermark. Recent
// bursts of allocations lower the watermark.
func (r *replica) offloadAboveWatermark(ctx actor.Context) {
	l, blocks := r.kvTiers, r.pool.Stats()
	if l.burst.Observe(r.machine.Steps(), blocks.Allocations); !l.offloading {
		r.offload(ctx, r.pool.SelectOffload(l.burst.Watermark(l.Watermark, blocks.Blocks), r.burst()))
	}
}

// offload starts to copy blocks to the first tier below HBM.
func (r *replica) offload(ctx actor.Context, blocks []kv.Committed) {
	l := r.kvTiers
	if len(blocks) == 0 {
		return
	}
	l.offloading = true
	o := offload{request: r.tierRequest(), root: ctx.ActorSystem().Root, from: l.down, to: l.Lower[0],
		blocks: blocks, namespace: l.namespace, copied: l.OnCopied}
	incarnation := r.incarnation
	supervise.Job(ctx, r.life, o.run, func(below []bool, err error) any {
		return &offloadDone{incarnation, blocks, below, err}
	})
}

func (r *replica) onOffloadDone(ctx actor.Context, msg *offloadDone) {
	if r.kvTiers == nil || msg.incarnation != r.incarnation {
		return
	}
	took := 0
	for i := len(msg.blocks) - 1; i >= 0; i-- { // the oldest last, so that it is evicted first
		below := i < len(msg.below) && msg.below[i]
		if r.pool.OffloadDone(msg.blocks[i].Block, below); below {
			took++
		}
	}
	if msg.err != nil {
		r.Log.Warn().Err(msg.err).Msg("offload failed")
	}
	// An immediate retry would fail the same way.
	if r.kvTiers.offloading = msg.err != nil || took == 0; r.kvTiers.offloading {
		supervise.After(ctx, offloadBackoff, &offloadRetry{r.incarnation})
	}
	r.kvTiers.totals.offloaded += uint64(took)
	r.offloadAllProgress(ctx, took, msg.err)
	r.Advance(ctx)
}

// offload copies blocks to a tier: it reserves slots, copies, and commits.
type offload struct {
	request   string
	root      *actor.RootContext
	from      Blocks
	to        Tier
	blocks    []kv.Committed
	namespace kv.Hash
	copied    kvstore.Report
}

// run reports for each block whether the tier has it now.
func (o offload) run(ctx context.Context) (below []bool, err error) {
	commit := &messages.CommitBlocks{RequestId: o.request}
	defer func() { o.root.Send(o.to.Actor, commit) }()
	below = make([]bool, len(o.blocks))
	at := make(map[kv.Hash]int, len(o.blocks))
	hashes := make([][]byte, len(o.blocks))
	for i, b := range o.blocks {
		h := b.Hash.Namespaced(o.namespace)
		at[h], hashes[i] = i, h[:]
	}
	answer, err := o.root.RequestFuture(o.to.Actor, &messages.ReserveSlots{
		RequestId: o.request, Hashes: hashes, BlockBytes: uint64(o.from.BlockBytes()),
	}, tierTimeout).Result()
	if err != nil {
		return below, fmt.Errorf("tier %s: %w", o.to.Name, err)
	}
	result := answer.(*messages.ReserveSlotsResult)
	if refused := result.GetRefused(); refused != nil {
		return below, fmt.Errorf("tier %s: %s", o.to.Name, refused.GetDetail())
	}
	for _, h := range result.GetReserved().GetHeld() {
		below[at[kv.Hash(h)]] = true
	}
	moves := make([]kvstore.Move, len(result.GetReserved().GetSlots()))
	for i, slot := range result.GetReserved().GetSlots() {
		h := kv.Hash(slot.GetHash())
		moves[i] = kvstore.Move{Block: o.blocks[at[h]].Block, Slot: int32(slot.GetIndex()), Hash: h}
	}
	err = kvstore.Offload(ctx, o.from, o.to.Store, moves)
	var written [][]byte
	for _, m := range moves {
		o.copied(hbmTier, o.to.Name, o.from.BlockBytes(), m)
		if m.Done {
			below[at[m.Hash]], written = true, append(written, m.Hash[:])
		}
	}
	commit = &messages.CommitBlocks{RequestId: o.request, Written: written}
	return below, err
}

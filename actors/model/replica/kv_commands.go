package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

// Blocks move by the operator's word, and some stay by it.

// hbmTier is what a replica's own blocks are called beside the names of tiers.
const hbmTier = "hbm"

// offloadAll is the order to copy all blocks down.
type offloadAll struct {
	askers []asker
	began  time.Time
	blocks int
}

// restoreOrder is the order to copy a prefix up. A nil one is nobody's.
type restoreOrder struct {
	asker
	began time.Time
	there int // blocks in HBM already
}

// pins are the prefixes that are to be kept.
type pins struct {
	version uint64
	hashes  []kv.Hash
}

// fitting are the tiers that the replica's blocks are not too large for.
func (r *replica) fitting(all []Tier) (fit []Tier) {
	for _, t := range all {
		if t.Store.Slabs().Fit(int(r.model.GetKvBlockBytes())) > 0 {
			fit = append(fit, t)
			continue
		}
		r.Log.Warn().Str("tier", t.Name).Uint64("block_bytes", r.model.GetKvBlockBytes()).Int("largest", t.Store.SlotBytes()).
			Msg("KV blocks do not fit into the tier; give it more room with --kv-dram or --kv-nvme")
	}
	return fit
}

func (r *replica) receiveOrders(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *messages.OffloadBlocks:
		if r.orderable(ctx, msg.GetRequestId(), true) {
			r.onOffloadBlocks(ctx, msg)
		}
	case *messages.RestoreBlocks:
		if r.orderable(ctx, msg.GetRequestId(), true) {
			hashes := kv.Hashes(kv.Root(r.Spec.GetModel(), msg.GetAdapter(), msg.GetCacheSalt()), msg.GetTokens(), r.pool.BlockTokens())
			r.fetch(ctx, hashes, asker{msg.GetRequestId(), ctx.Sender()})
		}
	case *messages.FlushBlocks:
		if r.orderable(ctx, msg.GetRequestId(), false) {
			moved := &messages.KvMoved{Tier: hbmTier, Replica: r.Spec.GetName(), Blocks: uint32(r.pool.Flush())}
			r.announce(ctx)
			r.changed(ctx)
			ctx.Respond(blocksMoved(msg.GetRequestId(), moved))
		}
	default:
		return false
	}
	return true
}

// orderable refuses what can not be done now, or not at all.
func (r *replica) orderable(ctx actor.Context, id string, below bool) bool {
	var why *messages.Refused
	switch {
	case r.ending || !r.ready:
		why = refusal(messages.Reason_REASON_NOT_READY, "replica "+r.Spec.GetName()+" is not serving yet", retryAfter)
	case below && r.lower != nil && !r.lower.ready:
		why = refusal(messages.Reason_REASON_NOT_READY, "replica "+r.Spec.GetName()+" reads its weights to know them from others; ask again later", retryAfter)
	case below && (r.lower == nil || len(r.lower.Lower) == 0):
		why = refusal(messages.Reason_REASON_UNSUPPORTED, "node "+r.Spec.GetNode()+" has no KV tier below HBM that its blocks fit into; start it with --kv-dram or --kv-nvme, or with more of it where blocks are large", 0)
	default:
		return true
	}
	ctx.Respond(&messages.BlocksMoved{RequestId: id, Outcome: &messages.BlocksMoved_Refused{Refused: why}})
	return false
}

func (r *replica) onOffloadBlocks(ctx actor.Context, msg *messages.OffloadBlocks) {
	if r.lower.all == nil {
		r.lower.all = &offloadAll{began: time.Now()}
	}
	r.lower.all.askers = append(r.lower.all.askers, asker{msg.GetRequestId(), ctx.Sender()})
	r.advance(ctx)
}

// offloadMore has the next blocks copied down that were ordered to.
func (r *replica) offloadMore(ctx actor.Context) {
	if r.lower.all == nil || r.lower.offloading {
		return
	}
	blocks := r.pool.SelectIdle(0, r.burst())
	if len(blocks) == 0 {
		blocks = r.pool.SelectOffload(0, r.burst()) // what running sequences hold
	}
	if len(blocks) == 0 {
		r.answerOffload(ctx, "")
		return
	}
	r.offload(ctx, blocks)
}

// offloadedSome: the tier below took so many blocks of the last ones.
func (r *replica) offloadedSome(ctx actor.Context, took int, err error) {
	if r.lower.all == nil {
		return
	}
	r.lower.all.blocks += took
	switch {
	case err != nil:
		r.answerOffload(ctx, err.Error())
	case took == 0:
		r.answerOffload(ctx, "tier "+r.lower.Lower[0].Name+" takes no more: what it holds is pinned, or in use")
	}
}

func (r *replica) answerOffload(ctx actor.Context, detail string) {
	all := r.lower.all
	r.lower.all = nil
	for _, a := range all.askers {
		ctx.Send(a.replyTo, blocksMoved(a.requestID, r.moved(all.blocks, all.began, detail)))
	}
}

// moved says that blocks were copied to or from HBM.
func (r *replica) moved(blocks int, began time.Time, detail string) *messages.KvMoved {
	return &messages.KvMoved{
		Node: r.Spec.GetNode(), Replica: r.Spec.GetName(), Blocks: uint32(blocks), Bytes: uint64(blocks) * r.model.GetKvBlockBytes(),
		Seconds: time.Since(began).Seconds(), Detail: detail,
	}
}

func blocksMoved(id string, moved *messages.KvMoved) *messages.BlocksMoved {
	return &messages.BlocksMoved{RequestId: id, Outcome: &messages.BlocksMoved_Moved{Moved: moved}}
}

// fetch has the blocks of a prefix copied up, for nobody's sake now.
func (r *replica) fetch(ctx actor.Context, hashes []kv.Hash, who asker) {
	order := &restoreOrder{asker: who, began: time.Now(), there: r.pool.Match(hashes)}
	if order.there == len(hashes) {
		order.answer(ctx, r, 0, "")
		return
	}
	s := r.search(ctx, hashes[order.there:])
	note := &located{incarnation: r.incarnation, hashes: hashes, have: order.there, search: s, order: order}
	supervise.Job(ctx, r.life, s.run, func(findings findings, err error) any {
		note.findings = findings
		return note
	})
}

// answer tells whoever gave the order what has become of it.
func (o *restoreOrder) answer(ctx actor.Context, r *replica, blocks int, detail string) {
	if o == nil || o.replyTo == nil {
		return
	}
	moved := r.moved(blocks, o.began, detail)
	moved.There = uint32(o.there)
	ctx.Send(o.replyTo, blocksMoved(o.requestID, moved))
}

// keepPins takes up what is pinned now, brings it up from below, and says it to the tiers again.
func (r *replica) keepPins(ctx actor.Context) {
	if r.Pins == nil || r.lower != nil && !r.lower.ready {
		return
	}
	version, all := r.Pins()
	if changed := version != r.pins.version; changed {
		r.pins = pins{version: version}
		set := make(map[kv.Hash]bool)
		for _, p := range all {
			hashes := kv.Hashes(kv.Root(r.Spec.GetModel(), p.GetAdapter(), p.GetCacheSalt()), p.GetTokens(), r.pool.BlockTokens())
			for _, h := range hashes {
				set[h] = true
			}
			r.pins.hashes = append(r.pins.hashes, hashes...)
			if r.lower != nil {
				r.fetch(ctx, hashes, asker{})
			}
		}
		r.pool.SetPins(set)
	}
	if r.lower == nil || version == 0 {
		return
	}
	msg := &messages.PinBlocks{Replica: r.Spec.GetName()}
	for _, h := range r.pins.hashes {
		inSpace := h.Namespaced(r.lower.space)
		msg.Hashes = append(msg.Hashes, inSpace[:])
	}
	for _, t := range r.lower.Lower {
		ctx.Send(t.Actor, msg)
	}
}

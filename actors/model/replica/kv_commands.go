package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/messages"
)

// Operators can offload, restore, flush and pin KV blocks.

// hbmTier is the name of HBM in metrics and messages, next to the names of tiers.
const hbmTier = "hbm"

// requester is the sender of a request that is answered later.
type requester struct {
	requestID string
	replyTo   *actor.PID
}

// offloadCommand is an OffloadBlocks command: offload all blocks.
type offloadCommand struct {
	requesters []requester
	began      time.Time
	blocks     int
}

// restoreCommand is a RestoreBlocks command, or the prefetch of a pinned prefix.
type restoreCommand struct {
	requester
	began time.Time
	inHBM int // leading blocks that were in HBM already
}

// kvPins are the hashes of the model's pinned prefixes.
type kvPins struct {
	version uint64
	hashes  []kv.Hash
}

// tiersThatFit returns the tiers whose slots are large enough for the replica's blocks.
func (r *replica) tiersThatFit(all []Tier) (fit []Tier) {
	for _, t := range all {
		if t.Store.Slabs().Fit(int(r.model.GetKvBlockBytes())) > 0 {
			fit = append(fit, t)
			continue
		}
		r.Log.Warn().Str("tier", t.Name).Uint64("block_bytes", r.model.GetKvBlockBytes()).
			Int("largest", t.Store.SlotBytes()).
			Msg("KV blocks do not fit into the tier; give it more room with --kv-dram or --kv-nvme")
	}
	return fit
}

func (r *replica) receiveKVCommands(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *messages.OffloadBlocks:
		if r.admitCommand(ctx, msg.GetRequestId(), true) {
			r.onOffloadBlocks(ctx, msg)
		}
	case *messages.RestoreBlocks:
		if r.admitCommand(ctx, msg.GetRequestId(), true) {
			hashes := kv.Hashes(kv.Root(r.Spec.GetModel(), msg.GetAdapter(), msg.GetCacheSalt()), msg.GetTokens(),
				r.pool.BlockTokens())
			r.prefetch(ctx, hashes, requester{msg.GetRequestId(), ctx.Sender()})
		}
	case *messages.FlushBlocks:
		if r.admitCommand(ctx, msg.GetRequestId(), false) {
			moved := &messages.KvMoved{Tier: hbmTier, Replica: r.Spec.GetName(), Blocks: uint32(r.pool.Flush())}
			r.publishBlocks(ctx)
			r.scheduleReport(ctx)
			ctx.Respond(blocksMoved(msg.GetRequestId(), moved))
		}
	default:
		return false
	}
	return true
}

// admitCommand reports whether a command can be executed now, and otherwise refuses it. Below says
// that the command needs a tier below HBM.
func (r *replica) admitCommand(ctx actor.Context, id string, below bool) bool {
	var why *messages.Refused
	switch {
	case !r.machine.Ready():
		why = refusal(messages.Reason_REASON_NOT_READY, "replica "+r.Spec.GetName()+" is not serving yet", retryAfter)
	case below && r.kvTiers != nil && !r.kvTiers.ready:
		why = refusal(messages.Reason_REASON_NOT_READY,
			"replica "+r.Spec.GetName()+" has no digest of its weights yet; retry later", retryAfter)
	case below && (r.kvTiers == nil || len(r.kvTiers.Lower) == 0):
		why = refusal(messages.Reason_REASON_UNSUPPORTED,
			"node "+r.Spec.GetNode()+" has no KV tier below HBM that fits its blocks; "+
				"start it with --kv-dram or --kv-nvme, or with a larger size", 0)
	default:
		return true
	}
	ctx.Respond(&messages.BlocksMoved{RequestId: id, Outcome: &messages.BlocksMoved_Refused{Refused: why}})
	return false
}

func (r *replica) onOffloadBlocks(ctx actor.Context, msg *messages.OffloadBlocks) {
	if r.kvTiers.offloadAll == nil {
		r.kvTiers.offloadAll = &offloadCommand{began: time.Now()}
	}
	r.kvTiers.offloadAll.requesters = append(r.kvTiers.offloadAll.requesters,
		requester{msg.GetRequestId(), ctx.Sender()})
	r.Advance(ctx)
}

// continueOffloadAll offloads the next blocks of an OffloadBlocks command.
func (r *replica) continueOffloadAll(ctx actor.Context) {
	if r.kvTiers.offloadAll == nil || r.kvTiers.offloading {
		return
	}
	blocks := r.pool.SelectIdle(0, r.burst())
	if len(blocks) == 0 {
		blocks = r.pool.SelectOffload(0, r.burst()) // blocks of running sequences
	}
	if len(blocks) == 0 {
		r.answerOffloadAll(ctx, "")
		return
	}
	r.offload(ctx, blocks)
}

// offloadAllProgress records the number of blocks that the tier accepted.
func (r *replica) offloadAllProgress(ctx actor.Context, took int, err error) {
	if r.kvTiers.offloadAll == nil {
		return
	}
	r.kvTiers.offloadAll.blocks += took
	switch {
	case err != nil:
		r.answerOffloadAll(ctx, err.Error())
	case took == 0:
		r.answerOffloadAll(ctx, "tier "+r.kvTiers.Lower[0].Name+" is full of blocks that are pinned or in use")
	}
}

func (r *replica) answerOffloadAll(ctx actor.Context, detail string) {
	all := r.kvTiers.offloadAll
	r.kvTiers.offloadAll = nil
	for _, a := range all.requesters {
		ctx.Send(a.replyTo, blocksMoved(a.requestID, r.kvMoved(all.blocks, all.began, detail)))
	}
}

// kvMoved returns the result of a command that copied blocks to or from HBM.
func (r *replica) kvMoved(blocks int, began time.Time, detail string) *messages.KvMoved {
	return &messages.KvMoved{
		Node: r.Spec.GetNode(), Replica: r.Spec.GetName(), Blocks: uint32(blocks),
		Bytes:   uint64(blocks) * r.model.GetKvBlockBytes(),
		Seconds: time.Since(began).Seconds(), Detail: detail,
	}
}

func blocksMoved(id string, moved *messages.KvMoved) *messages.BlocksMoved {
	return &messages.BlocksMoved{RequestId: id, Outcome: &messages.BlocksMoved_Moved{Moved: moved}}
}

// prefetch restores a prefix that no sequence is waiting for.
func (r *replica) prefetch(ctx actor.Context, hashes []kv.Hash, from requester) {
	command := &restoreCommand{requester: from, began: time.Now(), inHBM: r.pool.Match(hashes)}
	if command.inHBM == len(hashes) {
		command.answer(ctx, r, 0, "")
		return
	}
	r.startPrefetch(ctx, command, hashes)
}

// answer sends the result to the requester, if there is one.
func (c *restoreCommand) answer(ctx actor.Context, r *replica, blocks int, detail string) {
	if c.replyTo == nil {
		return
	}
	moved := r.kvMoved(blocks, c.began, detail)
	moved.Present = uint32(c.inHBM)
	ctx.Send(c.replyTo, blocksMoved(c.requestID, moved))
}

// syncKVPins applies changed pins: it pins the blocks in HBM and restores the missing ones. It then
// repeats all pins to the tiers.
func (r *replica) syncKVPins(ctx actor.Context) {
	if r.Pins == nil || r.kvTiers != nil && !r.kvTiers.ready {
		return
	}
	version, all := r.Pins()
	if changed := version != r.kvPins.version; changed {
		r.kvPins = kvPins{version: version}
		set := make(map[kv.Hash]bool)
		for _, p := range all {
			hashes := kv.Hashes(kv.Root(r.Spec.GetModel(), p.GetAdapter(), p.GetCacheSalt()), p.GetTokens(),
				r.pool.BlockTokens())
			for _, h := range hashes {
				set[h] = true
			}
			r.kvPins.hashes = append(r.kvPins.hashes, hashes...)
			if r.kvTiers != nil {
				r.prefetch(ctx, hashes, requester{})
			}
		}
		r.pool.SetPins(set)
	}
	if r.kvTiers == nil || version == 0 {
		return
	}
	msg := &messages.PinBlocks{Replica: r.Spec.GetName()}
	for _, h := range r.kvPins.hashes {
		inSpace := h.Namespaced(r.kvTiers.namespace)
		msg.Hashes = append(msg.Hashes, inSpace[:])
	}
	for _, t := range r.kvTiers.Lower {
		ctx.Send(t.Actor, msg)
	}
}

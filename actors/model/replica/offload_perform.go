package replica

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/offload"
	"troupe/messages"
)

// performOffload carries out the effects of core/offload, in order.
func (r *replica) performOffload(ctx actor.Context, effects []offload.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case offload.Select:
			r.performOffload(ctx, r.offloads.machine.Selected(r.selectBlocks(e), supervise.Now(ctx)))
		case offload.Copy:
			r.copyDown(ctx, e)
		case offload.Finish:
			for _, b := range e.Blocks {
				r.pool.OffloadDone(b.Block, b.Stored)
			}
		case offload.RetryAfter:
			supervise.After(ctx, e.After, &offloadRetry{r.incarnation})
		case offload.ReportSteps:
			r.sendToTiers(ctx, &messages.StepsDone{Steps: uint32(e.Steps)})
		case offload.Advance:
			r.advance(ctx)
		case offload.Answer:
			r.answerCommand(ctx, e.To, e.ID, r.kvMoved(e.Blocks, e.Took, e.Detail))
		case offload.Refuse:
			r.refuseCommand(ctx, e)
		case offload.Prefetch:
			r.prefetch(ctx, e)
		case offload.Flush:
			r.flushHBM(ctx, e)
		case offload.LoadPins:
			r.performOffload(ctx, r.offloads.machine.PinsLoaded(r.pinnedPrefixes()))
		case offload.SetPins:
			r.pool.SetPins(e.Hashes)
		case offload.SendPins:
			r.sendPins(ctx, e.Hashes)
		case offload.Ignored:
			r.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Msg("event ignored by offload")
		default:
			panic(fmt.Sprintf("replica: unknown effect %T", effect))
		}
	}
}

func (r *replica) selectBlocks(e offload.Select) []kv.Committed {
	if e.Idle {
		return r.pool.SelectIdle(e.IdleSteps, e.Burst)
	}
	return r.pool.SelectOffload(e.Watermark, e.Burst)
}

func (r *replica) copyDown(ctx actor.Context, e offload.Copy) {
	l := r.kvTiers
	msg := &messages.CopyBlocksDown{Copy: e.Number, Incarnation: l.copierLife, RequestId: r.tierRequest(),
		Tier: l.Lower[0].Name, Space: l.namespace[:], Blocks: make([]*messages.Block, len(e.Blocks))}
	for i, b := range e.Blocks {
		msg.Blocks[i] = &messages.Block{Index: uint32(b.Block), Hash: b.Hash[:]}
	}
	ctx.Send(l.copier, msg)
}

func (r *replica) sendToTiers(ctx actor.Context, msg proto.Message) {
	for _, t := range r.kvTiers.Lower {
		ctx.Send(t.Actor, msg)
	}
}

// answerCommand answers a command of an operator, unless its sender is unknown.
func (r *replica) answerCommand(ctx actor.Context, to offload.Actor, id string, moved *messages.KvMoved) {
	if to != (offload.Actor{}) {
		ctx.Send(actor.NewPID(to.Address, to.ID), &messages.BlocksMoved{
			RequestId: id, Outcome: &messages.BlocksMoved_Moved{Moved: moved},
		})
	}
}

func (r *replica) refuseCommand(ctx actor.Context, e offload.Refuse) {
	reason := messages.Reason_REASON_NOT_READY
	if e.Reason == offload.Unsupported {
		reason = messages.Reason_REASON_UNSUPPORTED
	}
	ctx.Send(actor.NewPID(e.To.Address, e.To.ID), &messages.BlocksMoved{
		RequestId: e.ID, Outcome: &messages.BlocksMoved_Refused{Refused: refusal(reason, e.Detail, e.RetryAfter)},
	})
}

// kvMoved returns the result of a command that copied blocks to or from HBM.
func (r *replica) kvMoved(blocks int, took time.Duration, detail string) *messages.KvMoved {
	return &messages.KvMoved{
		Node: r.Spec.GetNode(), Replica: r.Spec.GetName(), Blocks: uint32(blocks),
		Bytes: uint64(blocks) * r.model.GetKvBlockBytes(), Seconds: took.Seconds(), Detail: detail,
	}
}

func (r *replica) flushHBM(ctx actor.Context, e offload.Flush) {
	moved := &messages.KvMoved{Tier: hbmTier, Replica: r.Spec.GetName(), Blocks: uint32(r.pool.Flush())}
	r.publishBlocks(ctx)
	r.scheduleReport(ctx)
	r.answerCommand(ctx, e.To, e.ID, moved)
}

// pinnedPrefixes returns the blocks of the model's pinned prefixes.
func (r *replica) pinnedPrefixes() (prefixes [][]kv.Hash) {
	_, all := r.Pins()
	for _, p := range all {
		prefixes = append(prefixes, r.prefixHashes(p.GetAdapter(), p.GetCacheSalt(), p.GetTokens()))
	}
	return prefixes
}

func (r *replica) sendPins(ctx actor.Context, hashes []kv.Hash) {
	msg := &messages.PinBlocks{Replica: r.Spec.GetName()}
	for _, h := range hashes {
		inSpace := h.Namespaced(r.kvTiers.namespace)
		msg.Hashes = append(msg.Hashes, inSpace[:])
	}
	r.sendToTiers(ctx, msg)
}

// performExport carries out the effects of core/export, in order.
func (r *replica) performExport(ctx actor.Context, effects []export.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case export.Lock:
			blocks := r.pool.Acquire(e.Request.Hashes[:r.pool.Match(e.Request.Hashes)])
			r.performExport(ctx, r.offloads.exports.Locked(e.Request.ID, blocks))
		case export.Unlock:
			r.pool.Release(e.Blocks)
		default:
			r.offloads.exporter.Perform(ctx, e)
		}
	}
}

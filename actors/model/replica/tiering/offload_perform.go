package tiering

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/offload"
	"troupe/messages"
)

// performOffload carries out the effects of core/offload, in order.
func (t *Tiering) performOffload(ctx actor.Context, effects []offload.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case offload.Select:
			t.performOffload(ctx, t.offloads.machine.Selected(t.selectBlocks(e), supervise.Now(ctx)))
		case offload.Copy:
			t.copyDown(ctx, e)
		case offload.Finish:
			for _, b := range e.Blocks {
				t.Machine.Pool().OffloadDone(b.Block, b.Stored)
			}
		case offload.RetryAfter:
			supervise.After(ctx, e.After, t.Note(offloadRetry{}))
		case offload.ReportSteps:
			t.sendToTiers(ctx, &messages.StepsDone{Steps: uint32(e.Steps)})
		case offload.Advance:
			t.host.Advance(ctx)
		case offload.Answer:
			t.answerCommand(ctx, e.To, e.ID, t.kvMoved(e.Blocks, e.Took, e.Detail))
		case offload.Refuse:
			t.refuseCommand(ctx, e)
		case offload.Prefetch:
			t.prefetch(ctx, e)
		case offload.Flush:
			t.flushHBM(ctx, e)
		case offload.LoadPins:
			t.performOffload(ctx, t.offloads.machine.PinsLoaded(t.pinnedPrefixes()))
		case offload.SetPins:
			t.Machine.Pool().SetPins(e.Hashes)
		case offload.SendPins:
			t.sendPins(ctx, e.Hashes)
		case offload.Ignored:
			t.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Msg("event ignored by offload")
		default:
			panic(fmt.Sprintf("replica: unknown effect %T", effect))
		}
	}
}

func (t *Tiering) selectBlocks(e offload.Select) []kv.Committed {
	if e.Idle {
		return t.Machine.Pool().SelectIdle(e.IdleSteps, e.Burst)
	}
	return t.Machine.Pool().SelectOffload(e.Watermark, e.Burst)
}

func (t *Tiering) copyDown(ctx actor.Context, e offload.Copy) {
	l := t.kvTiers
	msg := &messages.CopyBlocksDown{Copy: e.Number, Incarnation: l.copierLife, RequestId: t.tierRequest(),
		Tier: l.Lower[0].Name, Space: l.namespace[:], Blocks: make([]*messages.Block, len(e.Blocks))}
	for i, b := range e.Blocks {
		msg.Blocks[i] = &messages.Block{Index: uint32(b.Block), Hash: b.Hash[:]}
	}
	ctx.Send(l.copier, msg)
}

func (t *Tiering) sendToTiers(ctx actor.Context, msg proto.Message) {
	for _, tier := range t.kvTiers.Lower {
		ctx.Send(tier.Actor, msg)
	}
}

// answerCommand answers an operator's command, unless its sender is unknown.
func (t *Tiering) answerCommand(ctx actor.Context, to offload.Actor, id string, moved *messages.KvMoved) {
	if to != (offload.Actor{}) {
		ctx.Send(actor.NewPID(to.Address, to.ID), &messages.BlocksMoved{
			RequestId: id, Outcome: &messages.BlocksMoved_Moved{Moved: moved},
		})
	}
}

func (t *Tiering) refuseCommand(ctx actor.Context, e offload.Refuse) {
	reason := messages.Reason_REASON_NOT_READY
	if e.Reason == offload.Unsupported {
		reason = messages.Reason_REASON_UNSUPPORTED
	}
	ctx.Send(actor.NewPID(e.To.Address, e.To.ID), &messages.BlocksMoved{
		RequestId: e.ID, Outcome: &messages.BlocksMoved_Refused{Refused: wire.Refusal(reason, e.Detail, e.RetryAfter)},
	})
}

// kvMoved returns the result of a command that copied blocks to or from HBM.
func (t *Tiering) kvMoved(blocks int, took time.Duration, detail string) *messages.KvMoved {
	return &messages.KvMoved{
		Node: t.Spec.GetNode(), Replica: t.Spec.GetName(), Blocks: uint32(blocks),
		Bytes: uint64(blocks) * t.Machine.Model().BlockBytes, Seconds: took.Seconds(), Detail: detail,
	}
}

func (t *Tiering) flushHBM(ctx actor.Context, e offload.Flush) {
	moved := &messages.KvMoved{Tier: hbmTier, Replica: t.Spec.GetName(), Blocks: uint32(t.Machine.Pool().Flush())}
	t.host.Perform(ctx, t.Machine.PublishBlocks())
	t.host.Perform(ctx, t.Machine.ReportSoon())
	t.answerCommand(ctx, e.To, e.ID, moved)
}

// pinnedPrefixes returns the blocks of the model's pinned prefixes.
func (t *Tiering) pinnedPrefixes() (prefixes [][]kv.Hash) {
	_, all := t.Pins()
	for _, p := range all {
		prefixes = append(prefixes, t.prefixHashes(p.GetAdapter(), p.GetCacheSalt(), p.GetTokens()))
	}
	return prefixes
}

func (t *Tiering) sendPins(ctx actor.Context, hashes []kv.Hash) {
	msg := &messages.PinBlocks{Replica: t.Spec.GetName()}
	for _, h := range hashes {
		inSpace := h.Namespaced(t.kvTiers.namespace)
		msg.Hashes = append(msg.Hashes, inSpace[:])
	}
	t.sendToTiers(ctx, msg)
}

// performExport carries out the effects of core/export, in order.
func (t *Tiering) performExport(ctx actor.Context, effects []export.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case export.Lock:
			blocks := t.Machine.Pool().Acquire(e.Request.Hashes[:t.Machine.Pool().Match(e.Request.Hashes)])
			t.performExport(ctx, t.offloads.exports.Locked(e.Request.ID, blocks))
		case export.Unlock:
			t.Machine.Pool().Release(e.Blocks)
		default:
			t.offloads.exporter.Perform(ctx, e)
		}
	}
}

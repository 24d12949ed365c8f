package tiering

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/model/replica/wire"
	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/messages"
)

// performRestore carries out the effects of core/restore, in order.
func (t *Tiering) performRestore(ctx actor.Context, effects []restore.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case restore.Hold:
			t.Machine.Batch().Hold(e.ID)
		case restore.Resume:
			if !t.host.Migrating(e.ID) { // otherwise it stays held for its migration
				t.Machine.Batch().Resume(e.ID)
			}
		case restore.LookUp:
			t.lookUp(ctx, e)
		case restore.Unlock:
			ctx.Send(t.kvTiers.copier, &messages.ReleaseFoundBlocks{Copy: e.Number, Incarnation: t.kvTiers.copierLife})
		case restore.Reserve:
			begin, blocks := t.reserveBlocks(e)
			t.performRestore(ctx, t.kvTiers.restores.Reserved(e.Number, begin, blocks))
		case restore.Copy:
			t.copyBlocks(ctx, e)
		case restore.CanStart:
			t.Log.Debug().Str("request", e.ID).Str("why", e.Why).Msg("prefill can overlap with the restore")
			t.host.Advance(ctx)
		case restore.StartSequence:
			if !t.host.Migrating(e.ID) && t.Machine.Batch().StartRestoring(e.ID, e.Table, e.Resident) {
				t.performRestore(ctx, t.kvTiers.restores.Started(e.Number))
			}
		case restore.FinishStart:
			t.Machine.Batch().RestoreDone(e.ID)
		case restore.UndoStart:
			t.Machine.Batch().RestoreFailed(e.ID)
		case restore.CloseGate:
			t.gates.Drop(e.Number)
		case restore.Incomplete:
			t.Log.Warn().Str("error", e.Why).Str("request", e.ID).Msg("restore incomplete")
		case restore.Commit:
			for i, b := range e.Blocks {
				t.Machine.Pool().Commit(b, e.Hashes[i])
			}
		case restore.MarkBacked:
			for i, b := range e.Blocks {
				t.Machine.Pool().MarkBacked(b, e.Hashes[i])
			}
		case restore.Release:
			t.Machine.Pool().Release(e.Blocks)
		case restore.Answer:
			t.kvTiers.prefetches[e.Command].answer(ctx, t, e.Blocks, e.Why)
			delete(t.kvTiers.prefetches, e.Command)
		case restore.Report:
			t.host.Perform(ctx, t.Machine.ReportSoon())
		case restore.Ignored:
			t.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
				Msg("event ignored by restores")
		default:
			panic(fmt.Sprintf("replica: unknown effect %T", effect))
		}
	}
}

// reserveBlocks references the blocks in HBM, so that the restore does not evict them, and
// allocates blocks for the others.
func (t *Tiering) reserveBlocks(e restore.Reserve) (begin, blocks []int32) {
	begin = t.Machine.Pool().Acquire(e.Have)
	for len(begin) == len(e.Have) && len(blocks) < e.Blocks {
		b, ok := t.Machine.Pool().Allocate()
		if !ok {
			break
		}
		blocks = append(blocks, b)
	}
	return begin, blocks
}

func (t *Tiering) lookUp(ctx actor.Context, e restore.LookUp) {
	l := t.kvTiers
	ctx.Send(l.copier, &messages.LookUpBlocks{Copy: e.Number, Incarnation: l.copierLife,
		RequestId: fmt.Sprintf("%s-%d-%d-r%d", t.Spec.GetName(), t.Started, t.Incarnation, e.Number),
		Tiers:     l.names(), Remote: e.Remote, Model: t.Spec.GetModel(), Replica: t.Spec.GetName(),
		Hashes: wire.Bytes(e.Hashes), Space: l.namespace[:], Within: durationpb.New(e.Within)})
}

func (t *Tiering) copyBlocks(ctx actor.Context, e restore.Copy) {
	t.host.Perform(ctx, t.Machine.PublishBlocks()) // before the evicted blocks are overwritten
	t.Log.Debug().Str("request", e.ID).Str("why", e.Why).Msg("restoring blocks")
	ctx.Send(t.kvTiers.copier, &messages.CopyFoundBlocks{Copy: e.Number, Incarnation: t.kvTiers.copierLife,
		Blocks: e.Blocks, Within: durationpb.New(e.Within), Parts: uint32(e.Parts), Gate: e.Gate})
}

// pathFrom returns the path to a holder, as measured by the remote tier.
func pathFrom(run *messages.BlocksHeld) kv.Path {
	p := run.GetPath()
	path := kv.Path{Name: run.GetName(), Queued: int64(p.GetQueuedBytes()), Latency: p.GetLatency().AsDuration(),
		ProbeBlocks: int(p.GetTryBlocks())}
	path.Rate.Add(p.GetBytesPerSecond(), time.Second)
	return path
}

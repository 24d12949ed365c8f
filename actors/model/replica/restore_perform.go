package replica

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/messages"
)

// performRestore carries out the effects of core/restore, in order.
func (r *replica) performRestore(ctx actor.Context, effects []restore.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case restore.Hold:
			r.batch.Hold(e.ID)
		case restore.Resume:
			if !r.migrations.Migrating(e.ID) { // otherwise it stays held for its migration
				r.batch.Resume(e.ID)
			}
		case restore.LookUp:
			r.lookUp(ctx, e)
		case restore.Unlock:
			ctx.Send(r.kvTiers.copier, &messages.ReleaseFoundBlocks{Copy: e.Number, Incarnation: r.kvTiers.copierLife})
		case restore.Reserve:
			begin, blocks := r.reserveBlocks(e)
			r.performRestore(ctx, r.kvTiers.restores.Reserved(e.Number, begin, blocks))
		case restore.Copy:
			r.copyBlocks(ctx, e)
		case restore.CanStart:
			r.Log.Debug().Str("request", e.ID).Str("why", e.Why).Msg("prefill can overlap with the restore")
			r.Advance(ctx)
		case restore.StartSequence:
			if !r.migrations.Migrating(e.ID) && r.batch.StartRestoring(e.ID, e.Table, e.Resident) {
				r.performRestore(ctx, r.kvTiers.restores.Started(e.Number))
			}
		case restore.FinishStart:
			r.batch.RestoreDone(e.ID)
		case restore.UndoStart:
			r.batch.RestoreFailed(e.ID)
		case restore.CloseGate:
			r.gates.drop(e.Number)
		case restore.Incomplete:
			r.Log.Warn().Str("error", e.Why).Str("request", e.ID).Msg("restore incomplete")
		case restore.Commit:
			for i, b := range e.Blocks {
				r.pool.Commit(b, e.Hashes[i])
			}
		case restore.MarkBacked:
			for i, b := range e.Blocks {
				r.pool.MarkBacked(b, e.Hashes[i])
			}
		case restore.Release:
			r.pool.Release(e.Blocks)
		case restore.Answer:
			r.kvTiers.prefetches[e.Command].answer(ctx, r, e.Blocks, e.Why)
			delete(r.kvTiers.prefetches, e.Command)
		case restore.Report:
			r.scheduleReport(ctx)
		case restore.Ignored:
			r.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
				Msg("event ignored by restores")
		default:
			panic(fmt.Sprintf("replica: unknown effect %T", effect))
		}
	}
}

// reserveBlocks references the blocks in HBM, so that the restore does not evict them, and allocates
// the others.
func (r *replica) reserveBlocks(e restore.Reserve) (begin, blocks []int32) {
	begin = r.pool.Acquire(e.Have)
	for len(begin) == len(e.Have) && len(blocks) < e.Blocks {
		b, ok := r.pool.Allocate()
		if !ok {
			break
		}
		blocks = append(blocks, b)
	}
	return begin, blocks
}

func (r *replica) lookUp(ctx actor.Context, e restore.LookUp) {
	l := r.kvTiers
	ctx.Send(l.copier, &messages.LookUpBlocks{Copy: e.Number, Incarnation: l.copierLife,
		RequestId: fmt.Sprintf("%s-%d-%d-r%d", r.Spec.GetName(), r.lastAttempt, r.incarnation, e.Number),
		Tiers:     l.names(), Remote: e.Remote, Model: r.Spec.GetModel(), Replica: r.Spec.GetName(),
		Hashes: bytesOf(e.Hashes), Space: l.namespace[:], Within: durationpb.New(e.Within)})
}

func (r *replica) copyBlocks(ctx actor.Context, e restore.Copy) {
	r.publishBlocks(ctx) // before the evicted blocks are overwritten
	r.Log.Debug().Str("request", e.ID).Str("why", e.Why).Msg("restoring blocks")
	ctx.Send(r.kvTiers.copier, &messages.CopyFoundBlocks{Copy: e.Number, Incarnation: r.kvTiers.copierLife,
		Blocks: e.Blocks, Within: durationpb.New(e.Within), Parts: uint32(e.Parts), Gate: e.Gate})
}

// pathFrom returns the path to a holder as measured by the remote tier.
func pathFrom(run *messages.BlocksHeld) kv.Path {
	p := run.GetPath()
	path := kv.Path{Name: run.GetName(), Queued: int64(p.GetQueuedBytes()), Latency: p.GetLatency().AsDuration(),
		ProbeBlocks: int(p.GetTryBlocks())}
	path.Rate.Add(p.GetBytesPerSecond(), time.Second)
	return path
}

package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// kvReportEvery is how often the gpu actor hears what the KV memory is used for. It is told whether or not that scheduleReport, since it may have lost
// what it knew.
const kvReportEvery = time.Second

// kvReportTick is a note to self.
type kvReportTick struct{ incarnation uint64 }

// shrink is KV memory on its way back to the device.
type shrink struct {
	command *messages.ShrinkKV
	done    bool // nobody uses it any more, and no step may run
}

func (r *replica) receiveResize(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *kvReportTick:
		if msg.incarnation == r.incarnation && !r.stopping {
			r.reportKV(ctx)
		}
	case *messages.ShrinkKV:
		r.onShrink(ctx, msg)
	case *messages.GrowKV:
		r.onGrow(ctx, msg)
	default:
		r.receiveMigration(ctx)
	}
}

// reportKV tells the gpu actor, now and again every second.
func (r *replica) reportKV(ctx actor.Context) {
	msg := &messages.KVReport{
		Lease: r.model.GetLease(), Blocks: uint32(r.pool.Stats().Blocks), Least: uint32(r.minBlocks()),
		Wants:    uint32(r.wantedBlocks()),
		Priority: r.Spec.GetPriority(),
	}
	if !r.lastStepAt.IsZero() {
		msg.LastUsed = timestamppb.New(r.lastStepAt)
	}
	ctx.Request(r.GPU, msg)
	if r.shrink != nil && r.shrink.done {
		r.answerShrink(ctx)
	}
	r.syncKVPins(ctx)
	supervise.After(ctx, kvReportEvery, &kvReportTick{r.incarnation})
}

// minBlocks is what one sequence of full length takes, or what the operator asked for.
func (r *replica) minBlocks() int {
	size := int(r.Spec.GetBlockTokens())
	return max((r.context+size-1)/size, int(r.Spec.GetKvBlocks()))
}

// contextLimit is how many tokens a sequence can have with so many blocks.
func (r *replica) contextLimit(blocks int) int {
	return min(int(r.model.GetContextTokens()), blocks*int(r.Spec.GetBlockTokens()))
}

// wantedBlocks is what the sequences that wait for blocks, not for a place, could use at full length.
func (r *replica) wantedBlocks() int {
	one := r.minBlocks()
	places := int(r.Spec.GetMaxSequences()) - r.batch.Running()
	if r.Spec.GetKvBlocks() > 0 || r.pool.Free() >= one {
		return 0
	}
	return max(0, min(r.batch.Waiting(), places)) * one
}

// onShrink: what is asked for before the blocks are known is asked for again.
func (r *replica) onShrink(ctx actor.Context, msg *messages.ShrinkKV) {
	switch {
	case r.pool == nil || r.stopping || msg.GetLease() != r.model.GetLease():
	case int(msg.GetBlocks()) < r.minBlocks():
		ctx.Request(r.GPU, &messages.KVShrunk{Lease: msg.GetLease(), Attempt: msg.GetAttempt(), Refused: refusal(
			messages.Reason_REASON_NO_MEMORY, "replica "+r.Spec.GetName()+" can not do with so few KV blocks", 0)})
	case r.shrink == nil || r.shrink.command.GetAttempt() != msg.GetAttempt():
		r.shrink = &shrink{command: msg}
		r.pool.Resize(int(msg.GetBlocks()))
		r.advance(ctx)
	case r.shrink.done:
		r.answerShrink(ctx)
	}
}

// advanceShrink carries a shrink on between two steps. It reports whether none may run.
func (r *replica) advanceShrink(ctx actor.Context) bool {
	if r.shrink == nil || r.shrink.done {
		return r.shrink != nil
	}
	r.onPreempted(ctx, r.batch.PreemptBeyond(int(r.shrink.command.GetBlocks())))
	if reading, _ := r.pool.Draining(); reading > 0 {
		return false
	}
	r.publishBlocks(ctx)
	r.shrink.done = true
	r.answerShrink(ctx)
	return true
}

func (r *replica) answerShrink(ctx actor.Context) {
	ctx.Request(r.GPU, &messages.KVShrunk{Lease: r.model.GetLease(), Attempt: r.shrink.command.GetAttempt()})
}

// onGrow: so many blocks are there now.
func (r *replica) onGrow(ctx actor.Context, msg *messages.GrowKV) {
	if r.pool == nil || r.stopping || msg.GetLease() != r.model.GetLease() {
		return
	}
	had, blocks := r.pool.Stats().Blocks, int(msg.GetBlocks())
	if blocks < had {
		panic("replica: memory of KV blocks that are in use is gone")
	}
	r.shrink = nil
	r.pool.Resize(blocks)
	r.announcer.Grow(blocks * fingerprintBytes)
	r.context = max(r.context, r.contextLimit(blocks))
	r.batch.RaiseContextLimit(r.context)
	r.Log.Info().Str("replica", r.Spec.GetName()).Int("from", had).Int("blocks", blocks).Msg("KV memory resized")
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// onPreempted notes who had to give way.
func (r *replica) onPreempted(ctx actor.Context, all []batch.Preemption) {
	for _, p := range all {
		r.totals.preemptions++
		r.Log.Info().Str("request", p.ID).Str("why", p.Why).Msg("sequence preempted")
		r.abortIfMigrating(ctx, p.ID, "it was preempted: "+p.Why)
		r.markPending(p.ID)
	}
}

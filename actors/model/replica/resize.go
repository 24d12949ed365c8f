package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// kvReportEvery is the time between two KVReports to the gpu actor. Unchanged values are repeated,
// since the gpu actor may have lost them in a crash.
const kvReportEvery = time.Second

// kvReportTick is a message to self.
type kvReportTick struct{ incarnation uint64 }

// shrink is a ShrinkKV in progress: KV memory that returns to the device.
type shrink struct {
	command *messages.ShrinkKV
	done    bool // the memory is unused and no step may run until GrowKV
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

// reportKV sends a KVReport and repeats that every kvReportEvery.
func (r *replica) reportKV(ctx actor.Context) {
	msg := &messages.KVReport{
		Lease: r.model.GetLease(), Blocks: uint32(r.pool.Stats().Blocks), MinBlocks: uint32(r.minBlocks()),
		WantedBlocks: uint32(r.wantedBlocks()),
		Priority:     r.Spec.GetPriority(),
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

// minBlocks returns the number of blocks for one sequence of full length, or the number that the
// operator configured if that is larger.
func (r *replica) minBlocks() int {
	size := int(r.Spec.GetBlockTokens())
	return max((r.context+size-1)/size, int(r.Spec.GetKvBlocks()))
}

// contextLimit returns the maximum number of tokens of a sequence with the given number of blocks.
func (r *replica) contextLimit(blocks int) int {
	return min(int(r.model.GetContextTokens()), blocks*int(r.Spec.GetBlockTokens()))
}

// wantedBlocks returns the number of blocks that waiting sequences could use at full length, if
// they wait for blocks rather than for a place in the batch.
func (r *replica) wantedBlocks() int {
	one := r.minBlocks()
	places := int(r.Spec.GetMaxSequences()) - r.batch.Running()
	if r.Spec.GetKvBlocks() > 0 || r.pool.Free() >= one {
		return 0
	}
	return max(0, min(r.batch.Waiting(), places)) * one
}

// onShrink starts to shrink the KV memory, or repeats the answer. Before the blocks are adopted it
// ignores the command, which the gpu actor repeats.
func (r *replica) onShrink(ctx actor.Context, msg *messages.ShrinkKV) {
	switch {
	case r.pool == nil || r.stopping || msg.GetLease() != r.model.GetLease():
	case int(msg.GetBlocks()) < r.minBlocks():
		ctx.Request(r.GPU, &messages.KVShrunk{Lease: msg.GetLease(), Attempt: msg.GetAttempt(),
			Refused: refusal(messages.Reason_REASON_NO_MEMORY, "replica "+r.Spec.GetName()+" needs more KV blocks", 0)})
	case r.shrink == nil || r.shrink.command.GetAttempt() != msg.GetAttempt():
		r.shrink = &shrink{command: msg}
		r.pool.Resize(int(msg.GetBlocks()))
		r.advance(ctx)
	case r.shrink.done:
		r.answerShrink(ctx)
	}
}

// advanceShrink continues a shrink between two steps. It reports whether no step may run.
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

// onGrow sets the number of blocks and ends a shrink.
func (r *replica) onGrow(ctx actor.Context, msg *messages.GrowKV) {
	if r.pool == nil || r.stopping || msg.GetLease() != r.model.GetLease() {
		return
	}
	had, blocks := r.pool.Stats().Blocks, int(msg.GetBlocks())
	if blocks < had {
		panic("replica: GrowKV takes away KV blocks in use")
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

// onPreempted handles sequences that the scheduler has preempted.
func (r *replica) onPreempted(ctx actor.Context, all []batch.Preemption) {
	for _, p := range all {
		r.totals.preemptions++
		r.Log.Info().Str("request", p.ID).Str("why", p.Why).Msg("sequence preempted")
		r.abortIfMigrating(ctx, p.ID, "preempted: "+p.Why)
		r.markPending(ctx, p.ID)
	}
}

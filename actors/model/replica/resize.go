package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// kvEvery is how often the gpu actor hears what the KV memory is used for. It is told whether or not that changed, since it may have lost
// what it knew.
const kvEvery = time.Second

// kvBeat is a note to self.
type kvBeat struct{ incarnation uint64 }

// shrink is KV memory on its way back to the device.
type shrink struct {
	command *messages.ShrinkKV
	shrunk  bool // nobody uses it any more, and no step may run
}

func (r *replica) receiveResize(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *kvBeat:
		if msg.incarnation == r.incarnation && !r.ending {
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
		Lease: r.model.GetLease(), Blocks: uint32(r.pool.Stats().Blocks), Least: uint32(r.leastBlocks()), Wants: uint32(r.wantedBlocks()),
		Priority: r.Spec.GetPriority(),
	}
	if !r.stepped.IsZero() {
		msg.LastUsed = timestamppb.New(r.stepped)
	}
	ctx.Request(r.GPU, msg)
	if r.shrink != nil && r.shrink.shrunk {
		r.answerShrink(ctx)
	}
	r.keepPins(ctx)
	supervise.After(ctx, kvEvery, &kvBeat{r.incarnation})
}

// leastBlocks is what one sequence of full length takes, or what the operator asked for.
func (r *replica) leastBlocks() int {
	size := int(r.Spec.GetBlockTokens())
	return max((r.context+size-1)/size, int(r.Spec.GetKvBlocks()))
}

// longest is how many tokens a sequence can have with so many blocks.
func (r *replica) longest(blocks int) int {
	return min(int(r.model.GetContextTokens()), blocks*int(r.Spec.GetBlockTokens()))
}

// wantedBlocks is what the sequences that wait for blocks, not for a place, could use at full length.
func (r *replica) wantedBlocks() int {
	one := r.leastBlocks()
	places := int(r.Spec.GetMaxSequences()) - r.batch.Running()
	if r.Spec.GetKvBlocks() > 0 || r.pool.Free() >= one {
		return 0
	}
	return max(0, min(r.batch.Waiting(), places)) * one
}

// onShrink: what is asked for before the blocks are known is asked for again.
func (r *replica) onShrink(ctx actor.Context, msg *messages.ShrinkKV) {
	switch {
	case r.pool == nil || r.ending || msg.GetLease() != r.model.GetLease():
	case int(msg.GetBlocks()) < r.leastBlocks():
		ctx.Request(r.GPU, &messages.KVShrunk{Lease: msg.GetLease(), Attempt: msg.GetAttempt(), Refused: refusal(
			messages.Reason_REASON_NO_MEMORY, "replica "+r.Spec.GetName()+" can not do with so few KV blocks", 0)})
	case r.shrink == nil || r.shrink.command.GetAttempt() != msg.GetAttempt():
		r.shrink = &shrink{command: msg}
		r.pool.Resize(int(msg.GetBlocks()))
		r.advance(ctx)
	case r.shrink.shrunk:
		r.answerShrink(ctx)
	}
}

// shrinking carries a shrink on between two steps. It reports whether none may run.
func (r *replica) shrinking(ctx actor.Context) bool {
	if r.shrink == nil || r.shrink.shrunk {
		return r.shrink != nil
	}
	r.preempted(ctx, r.batch.PreemptBeyond(int(r.shrink.command.GetBlocks())))
	if reading, _ := r.pool.Draining(); reading > 0 {
		return false
	}
	r.announce(ctx)
	r.shrink.shrunk = true
	r.answerShrink(ctx)
	return true
}

func (r *replica) answerShrink(ctx actor.Context) {
	ctx.Request(r.GPU, &messages.KVShrunk{Lease: r.model.GetLease(), Attempt: r.shrink.command.GetAttempt()})
}

// onGrow: so many blocks are there now.
func (r *replica) onGrow(ctx actor.Context, msg *messages.GrowKV) {
	if r.pool == nil || r.ending || msg.GetLease() != r.model.GetLease() {
		return
	}
	had, blocks := r.pool.Stats().Blocks, int(msg.GetBlocks())
	if blocks < had {
		panic("replica: memory of KV blocks that are in use is gone")
	}
	r.shrink = nil
	r.pool.Resize(blocks)
	r.news.Grow(blocks * shortBytes)
	r.context = max(r.context, r.longest(blocks))
	r.batch.RaiseContextLimit(r.context)
	r.Log.Info().Str("replica", r.Spec.GetName()).Int("from", had).Int("blocks", blocks).Msg("KV memory resized")
	r.changed(ctx)
	r.advance(ctx)
}

// preempted notes who had to give way.
func (r *replica) preempted(ctx actor.Context, all []batch.Preemption) {
	for _, p := range all {
		r.totals.preemptions++
		r.Log.Info().Str("request", p.ID).Str("why", p.Why).Msg("sequence preempted")
		r.keep(ctx, p.ID, "it was preempted: "+p.Why)
		r.want(p.ID)
	}
}

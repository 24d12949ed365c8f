package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/batch"
	core "troupe/core/replica"
	"troupe/core/utilization"
	"troupe/messages"
)

// Advance starts the next step unless one is in flight, none may run, or there is nothing to
// compute. Before it plans a step, it applies restored blocks, releases memory that the device
// takes back, and starts restores and offloads.
func (r *replica) Advance(ctx actor.Context) {
	r.Perform(ctx, r.machine.Advance(r.migrations.Postponed(), supervise.Now(ctx)))
	if !r.machine.MayPlan() {
		return
	}
	r.tiering.ApplyRestores(ctx)
	if r.Perform(ctx, r.machine.Release()); !r.machine.MayPlan() {
		return
	}
	r.tiering.Tick(ctx)
	r.Perform(ctx, r.machine.Plan(supervise.Now(ctx)))
}

// runStep sends a step to the engine.
func (r *replica) runStep(ctx actor.Context, e core.RunStep) {
	r.command = &messages.RunStep{Step: e.Step, Incarnation: r.engineLife,
		Sequences: make([]*messages.StepSequence, len(e.Entries))}
	for i, entry := range e.Entries {
		var spec *messages.SequenceSpec
		if c := r.sequences[entry.ID]; c != nil {
			spec = c.Spec
		}
		r.command.Sequences[i] = r.base().StepSequence(entry, spec, r.machine.Batch())
		r.command.Sequences[i].Gate = r.tiering.GateOf(entry)
	}
	ctx.Request(r.engine, r.command)
}

// repeatStep sends the step in flight to the next incarnation of the engine.
func (r *replica) repeatStep(ctx actor.Context) {
	r.command = &messages.RunStep{Step: r.command.GetStep(), Sequences: r.command.GetSequences(),
		Incarnation: r.engineLife}
	ctx.Request(r.engine, r.command)
}

func (r *replica) onStepResult(ctx actor.Context, msg *messages.RunStepResult) {
	if aborted := msg.GetAborted(); aborted != nil {
		r.Perform(ctx, r.machine.StepAborted(msg.GetStep(), int(aborted.GetSequence()), aborted.GetDetail(),
			supervise.Now(ctx)))
		return
	}
	done := msg.GetDone()
	sampled, notFinite := wire.Sampled(done.GetTokens())
	r.machine.StepWorked(msg.GetStep(), utilization.Work{FLOPs: done.GetFlops(), Bytes: done.GetBytes()},
		time.Duration(done.GetLeastNanoseconds()))
	r.Perform(ctx, r.machine.StepDone(msg.GetStep(), sampled, notFinite, supervise.Now(ctx)))
}

// emit sends the tokens of a step to their sessions.
func (r *replica) emit(ctx actor.Context, e core.Emit) {
	logprobs := wire.Logprobs(e.Entries, ctx.Message().(*messages.RunStepResult).GetDone().GetTokens())
	for _, t := range e.Tokens {
		c, lp := r.sequences[t.ID], logprobs[t.ID]
		if lp != nil && t.Finish != batch.Stop {
			c.Logprobs = append(c.Logprobs, lp)
		}
		ctx.Request(c.Session, r.reply.Emitted(t, lp))
	}
}

package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/batch"
	core "troupe/core/replica"
	"troupe/messages"
)

// advance starts the next step, unless one is in flight, none may run, or there is nothing to do.
// Before a step is planned, restored blocks are applied, memory that the device takes back is
// released, and restores and offloads are started.
func (r *replica) advance(ctx actor.Context) {
	r.perform(ctx, r.machine.Advance(len(r.pendingOffers), supervise.Now(ctx)))
	if !r.machine.MayPlan() {
		return
	}
	r.applyRestores(ctx)
	if r.perform(ctx, r.machine.Release()); !r.machine.MayPlan() {
		return
	}
	r.tickTiers(ctx)
	r.perform(ctx, r.machine.Plan(supervise.Now(ctx)))
}

// runStep sends a step to the engine.
func (r *replica) runStep(ctx actor.Context, e core.RunStep) {
	r.command = &messages.RunStep{Step: e.Step, Sequences: make([]*messages.StepSequence, len(e.Entries))}
	for i, entry := range e.Entries {
		r.command.Sequences[i] = r.stepSequence(entry)
	}
	ctx.Request(r.engine, r.command)
}

// stepSequence converts one entry of a step for the engine.
func (r *replica) stepSequence(e batch.Entry) *messages.StepSequence {
	s := &messages.StepSequence{Tokens: e.Tokens, Position: uint32(e.Position), Blocks: e.Blocks, Sample: e.Sample,
		Adapter: e.Adapter, Gate: r.gateOf(e)}
	c, ok := r.sequences[e.ID]
	if !e.Sample || !ok { // a cancelled sequence is computed to the end of the step, without a session
		return s
	}
	s.Sampling = c.spec.GetSampling()
	if wire.NeedsHistory(s.Sampling) {
		s.Prompt, s.Output, _ = r.batch.Sequence(e.ID)
	}
	if least := s.Sampling.GetMinTokens(); least > 0 {
		if _, output, _ := r.batch.Sequence(e.ID); uint32(len(output)) < least {
			s.Banned = r.base().Stops(c.spec)
		}
	}
	return s
}

func (r *replica) onStepResult(ctx actor.Context, msg *messages.RunStepResult) {
	if aborted := msg.GetAborted(); aborted != nil {
		r.perform(ctx, r.machine.StepAborted(msg.GetStep(), int(aborted.GetSequence()), aborted.GetDetail()))
		return
	}
	sampled, notFinite := wire.Sampled(msg.GetDone().GetTokens())
	r.perform(ctx, r.machine.StepDone(msg.GetStep(), sampled, notFinite, supervise.Now(ctx)))
}

// emit sends the tokens of a step to their sessions.
func (r *replica) emit(ctx actor.Context, e core.Emit) {
	logprobs := wire.Logprobs(e.Entries, ctx.Message().(*messages.RunStepResult).GetDone().GetTokens())
	for _, t := range e.Tokens {
		c := r.sequences[t.ID]
		msg := &messages.TokensEmitted{RequestId: t.ID, Incarnation: r.incarnation, FirstIndex: uint32(t.Index),
			Finish: wire.Finish(t.Finish), CachedTokens: uint32(t.Cached)}
		if t.Finish != batch.Stop {
			msg.Tokens = []uint32{t.Token}
			if lp := logprobs[t.ID]; lp != nil {
				msg.Logprobs = []*messages.TokenLogprobs{lp}
				c.logprobs = append(c.logprobs, lp)
			}
		}
		ctx.Request(c.session, msg)
	}
}

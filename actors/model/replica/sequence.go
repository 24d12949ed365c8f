package replica

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	core "troupe/core/replica"
	"troupe/messages"
)

func (r *replica) onSubmit(ctx actor.Context, msg *messages.SubmitSequence) {
	seq, now := msg.GetSequence(), supervise.Now(ctx)
	if why := r.unsupported(msg); why != nil {
		answer(ctx, &messages.SubmitSequenceResult{RequestId: msg.GetRequestId(), Incarnation: r.incarnation,
			Outcome: &messages.SubmitSequenceResult_Refused{Refused: why}})
		return
	}
	request := r.base().Request(msg.GetRequestId(), seq, msg.GetOutput(), now)
	request.Waited = msg.GetWaited().AsDuration()
	r.Perform(ctx, r.machine.Submit(&core.Submission{
		Request: request, Adapter: wire.Adapter(seq), Revision: msg.GetRevisionDigest(),
	}, now))
}

// base returns the model that conversions of sequences depend on.
func (r *replica) base() wire.Base { return wire.Base{Model: r.Spec.GetModel(), EOS: r.model.GetEos()} }

// attach records the session of a submitted sequence.
func (r *replica) attach(ctx actor.Context, e core.Attach) {
	spec := ctx.Message().(*messages.SubmitSequence).GetSequence()
	r.sequences[e.ID] = &wire.Sequence{Session: ctx.Sender(), Spec: spec, Base: e.Base}
	r.addAdapter(spec.GetAdapterSpec())
}

// reattach records the new session of a sequence, and sends it the tokens that it lacks.
func (r *replica) reattach(ctx actor.Context, e core.Reattach) {
	c := r.sequences[e.ID]
	if c.Session = ctx.Sender(); len(e.Tokens) == 0 {
		return
	}
	var logprobs []*messages.TokenLogprobs
	if c.Logprobs != nil {
		logprobs = c.Logprobs[e.First-c.Base:]
	}
	ctx.Request(c.Session, r.reply.Repeated(e, logprobs))
}

func (r *replica) onGetSequence(ctx actor.Context, msg *messages.GetSequence) {
	known, effects := r.machine.Query(msg.GetRequestId())
	r.Perform(ctx, effects)
	answer(ctx, &messages.SequenceStatus{RequestId: msg.GetRequestId(), Known: known.State != "", State: known.State,
		OutputTokens: uint32(known.Output)})
}

// answer answers a session. The answer has a sender, since it may arrive when the session has moved to another
// replica.
func answer(ctx actor.Context, message any) {
	if ctx.Sender() != nil {
		ctx.Request(ctx.Sender(), message)
	}
}

// interrupt ends a sequence on this replica. Its session may continue it elsewhere.
func (r *replica) interrupt(ctx actor.Context, e core.Interrupt) {
	why := wire.Refused(&e.Refusal)
	if e.Reason == core.Relayed {
		why = ctx.Message().(interface{ GetRefused() *messages.Refused }).GetRefused()
	}
	ctx.Request(r.sequences[e.ID].Session, r.reply.Interrupted(e.ID, why))
}

// drop forgets a sequence, its restore, and its migration.
func (r *replica) drop(ctx actor.Context, e core.Drop) {
	delete(r.sequences, e.ID)
	r.tiering.Dropped(ctx, e.ID)
	r.migrations.Cancel(ctx, e.ID, e.Why)
}

// sequencesOf returns the sequences of a session, in order.
func (r *replica) sequencesOf(session *actor.PID) (ids []string) {
	for id, c := range r.sequences {
		if c.Session.Equal(session) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

package replica

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// onResume continues a sequence here, if all of its blocks have come.
func (r *replica) onResume(ctx actor.Context, msg *messages.ResumeSequence) {
	a := r.arrivals[msg.GetRequestId()]
	if a == nil || a.attempt != msg.GetAttempt() || !a.source.Equal(ctx.Sender()) {
		ctx.Respond(&messages.ResumeSequenceResult{RequestId: msg.GetRequestId(), Attempt: msg.GetAttempt(), Refused: refusal(
			messages.Reason_REASON_NOT_FOUND, "replica "+r.Spec.GetName()+" keeps no room for it, or does not any more", 0)})
		return
	}
	a.heard = time.Now()
	if a.resumed == nil {
		a.resumed = &messages.ResumeSequenceResult{
			RequestId: a.id, Attempt: a.attempt, Refused: r.adopt(a, msg), Incarnation: r.incarnation, Node: r.Spec.GetNode(),
		}
	}
	ctx.Respond(a.resumed)
	r.changed(ctx)
	r.advance(ctx)
}

func (r *replica) adopt(a *arrival, msg *messages.ResumeSequence) *messages.Refused {
	r.shut(a)
	if r.state != messages.ReplicaState_REPLICA_STATE_SERVING {
		r.vacate(a)
		return refusal(messages.Reason_REASON_DRAINING, "replica "+r.Spec.GetName()+" is draining", retryAfter)
	}
	request, tokens := r.request(a.id, a.offer.GetSequence(), msg.GetOutput()), int(msg.GetTokens())
	var why *batch.Refusal
	switch {
	case a.room == nil:
		_, why = r.batch.Submit(request)
	case !a.inlet.whole(tokens, int(r.Spec.GetBlockTokens())):
		r.vacate(a)
		return refusal(messages.Reason_REASON_CONFLICT, "not all of its blocks have come", 0)
	default:
		why = r.batch.Adopt(a.room, request, tokens)
	}
	if why != nil {
		return refusedByBatch(why)
	}
	r.calls[a.id] = &call{
		session: pidOf(a.offer.GetSession()), sequence: a.offer.GetSequence(), logprobs: msg.GetLogprobs(),
	}
	if n := len(msg.GetLogprobs()); n > 0 {
		r.calls[a.id].base = len(msg.GetOutput()) - n
	}
	r.totals.migratedIn++
	return nil
}

// onAbandon: the sequence is the source's again, or nobody's.
func (r *replica) onAbandon(ctx actor.Context, msg *messages.AbandonSequence) {
	a := r.arrivals[msg.GetRequestId()]
	if a == nil || a.attempt != msg.GetAttempt() {
		r.withdraw(ctx, msg)
		return
	}
	if _, here := r.calls[a.id]; here && a.adopted() && !a.spoken {
		r.keep(ctx, a.id, "it was taken back")
		r.batch.Drop(a.id)
		delete(r.calls, a.id)
	}
	r.release(ctx, a)
	r.changed(ctx)
	r.advance(ctx)
}

// withdraw forgets an offer that was postponed.
func (r *replica) withdraw(ctx actor.Context, msg *messages.AbandonSequence) {
	r.offers = slices.DeleteFunc(r.offers, func(o offered) bool {
		over := o.offer.GetRequestId() == msg.GetRequestId() && o.offer.GetAttempt() == msg.GetAttempt()
		if over {
			r.giveUp(&arrival{id: msg.GetRequestId(), offer: o.offer})
		}
		return over
	})
	r.askPool(ctx)
}

// onExpire frees room for a sequence of which nothing was heard, and forgets an answer that nobody asks for again.
func (r *replica) onExpire(ctx actor.Context, msg *expire) {
	a := r.arrivals[msg.id]
	if msg.incarnation != r.incarnation || a == nil || a.attempt != msg.attempt {
		return
	}
	heard := a.heard
	if a.inlet != nil {
		heard = a.inlet.last(heard)
	}
	if left := keepFor - time.Since(heard); left > 0 {
		supervise.After(ctx, left, msg)
		return
	}
	r.release(ctx, a)
	r.advance(ctx)
}

// settle: a session has spoken for a sequence that came here.
func (r *replica) settle(id string) {
	if a := r.arrivals[id]; a != nil && a.adopted() {
		a.spoken = true
	}
}

// release forgets an arrival, and frees what was kept for it.
func (r *replica) release(ctx actor.Context, a *arrival) {
	r.shut(a)
	r.vacate(a)
	delete(r.arrivals, a.id)
	r.unwatch(ctx, a.source)
}

// shut lets no more blocks in. It waits for the one that is being written, so that the room can be given to others.
func (r *replica) shut(a *arrival) {
	if a.inlet != nil && a.inlet.shut() {
		r.Bulk.Drop(a.ticket)
	}
}

func (r *replica) vacate(a *arrival) {
	if a.room != nil {
		r.batch.Abandon(a.room)
	}
}

package replica

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// onResume continues a sequence here if all of its blocks have arrived.
func (r *replica) onResume(ctx actor.Context, msg *messages.ResumeSequence) {
	a := r.incoming[msg.GetRequestId()]
	if a == nil || a.attempt != msg.GetAttempt() || !a.source.Equal(ctx.Sender()) {
		ctx.Respond(&messages.ResumeSequenceResult{RequestId: msg.GetRequestId(), Attempt: msg.GetAttempt(),
			Refused: refusal(
				messages.Reason_REASON_NOT_FOUND,
				"replica "+r.Spec.GetName()+" has no reservation for the sequence", 0)})
		return
	}
	a.lastHeard = time.Now()
	if a.resumeResult == nil {
		a.resumeResult = &messages.ResumeSequenceResult{
			RequestId: a.id, Attempt: a.attempt, Refused: r.adoptSequence(a, msg), Incarnation: r.incarnation,
			Node: r.Spec.GetNode(),
		}
	}
	ctx.Respond(a.resumeResult)
	r.scheduleReport(ctx)
	r.advance(ctx)
}

func (r *replica) adoptSequence(a *incoming, msg *messages.ResumeSequence) *messages.Refused {
	r.closeSink(a)
	if r.state != messages.ReplicaState_REPLICA_STATE_SERVING {
		r.abandonReservation(a)
		return refusal(messages.Reason_REASON_DRAINING, "replica "+r.Spec.GetName()+" is draining", retryAfter)
	}
	request, tokens := r.batchRequest(a.id, a.offer.GetSequence(), msg.GetOutput()), int(msg.GetTokens())
	var why *batch.Refusal
	switch {
	case a.reservation == nil:
		_, why = r.batch.Submit(request)
	case !a.sink.complete(tokens, int(r.Spec.GetBlockTokens())):
		r.abandonReservation(a)
		return refusal(messages.Reason_REASON_CONFLICT, "not all blocks have arrived", 0)
	default:
		why = r.batch.Adopt(a.reservation, request, tokens)
	}
	if why != nil {
		return refusedByBatch(why)
	}
	r.sequences[a.id] = &activeSequence{
		session: pidOf(a.offer.GetSession()), spec: a.offer.GetSequence(), logprobs: msg.GetLogprobs(),
	}
	if n := len(msg.GetLogprobs()); n > 0 {
		r.sequences[a.id].outputBase = len(msg.GetOutput()) - n
	}
	r.totals.migratedIn++
	return nil
}

// onAbandon releases a sequence that the source has taken back or no longer has.
func (r *replica) onAbandon(ctx actor.Context, msg *messages.AbandonSequence) {
	a := r.incoming[msg.GetRequestId()]
	if a == nil || a.attempt != msg.GetAttempt() {
		r.withdrawOffer(ctx, msg)
		return
	}
	if _, here := r.sequences[a.id]; here && a.adopted() && !a.claimed {
		r.abortIfMigrating(ctx, a.id, "the source took it back")
		r.batch.Drop(a.id)
		delete(r.sequences, a.id)
	}
	r.releaseIncoming(ctx, a)
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// withdrawOffer removes a postponed offer.
func (r *replica) withdrawOffer(ctx actor.Context, msg *messages.AbandonSequence) {
	r.pendingOffers = slices.DeleteFunc(r.pendingOffers, func(o pendingOffer) bool {
		over := o.offer.GetRequestId() == msg.GetRequestId() && o.offer.GetAttempt() == msg.GetAttempt()
		if over {
			r.releaseAdapter(&incoming{id: msg.GetRequestId(), offer: o.offer})
		}
		return over
	})
	r.syncPins(ctx)
}

// onExpire releases the reservation for a sequence if no message or block has arrived within
// incomingTimeout. It also drops an answer that is no longer requested.
func (r *replica) onExpire(ctx actor.Context, msg *expireIncoming) {
	a := r.incoming[msg.id]
	if msg.incarnation != r.incarnation || a == nil || a.attempt != msg.attempt {
		return
	}
	heard := a.lastHeard
	if a.sink != nil {
		heard = a.sink.lastChunkAt(heard)
	}
	if left := incomingTimeout - time.Since(heard); left > 0 {
		supervise.After(ctx, left, msg)
		return
	}
	r.releaseIncoming(ctx, a)
	r.advance(ctx)
}

// markClaimed records that the session of an incoming sequence has contacted this replica.
func (r *replica) markClaimed(id string) {
	if a := r.incoming[id]; a != nil && a.adopted() {
		a.claimed = true
	}
}

// releaseIncoming forgets an incoming sequence and releases its reservation.
func (r *replica) releaseIncoming(ctx actor.Context, a *incoming) {
	r.closeSink(a)
	r.abandonReservation(a)
	delete(r.incoming, a.id)
	r.unwatchUnused(ctx, a.source)
}

// closeSink rejects further blocks. It waits for a write in progress, so that the blocks can be
// used by others afterwards.
func (r *replica) closeSink(a *incoming) {
	if a.sink != nil && a.sink.close() {
		r.Bulk.Drop(a.ticket)
	}
}

func (r *replica) abandonReservation(a *incoming) {
	if a.reservation != nil {
		r.batch.Abandon(a.reservation)
	}
}

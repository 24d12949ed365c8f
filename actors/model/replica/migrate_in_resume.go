package replica

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	core "troupe/core/replica"
	"troupe/messages"
)

// onResume continues a sequence here if all of its blocks have arrived.
func (r *replica) onResume(ctx actor.Context, msg *messages.ResumeSequence) {
	in := r.incoming[msg.GetRequestId()]
	if in == nil || in.attempt != msg.GetAttempt() || !in.source.Equal(ctx.Sender()) {
		ctx.Respond(&messages.ResumeSequenceResult{RequestId: msg.GetRequestId(), Attempt: msg.GetAttempt(),
			Refused: refusal(
				messages.Reason_REASON_NOT_FOUND,
				"replica "+r.Spec.GetName()+" has no reservation for the sequence", 0)})
		return
	}
	in.lastHeard = time.Now()
	if in.resumeResult == nil {
		in.resumeResult = &messages.ResumeSequenceResult{
			RequestId: in.id, Attempt: in.attempt, Refused: r.adoptSequence(ctx, in, msg), Incarnation: r.incarnation,
			Node: r.Spec.GetNode(),
		}
	}
	ctx.Respond(in.resumeResult)
	r.scheduleReport(ctx)
	r.advance(ctx)
}

func (r *replica) adoptSequence(ctx actor.Context, in *incoming, msg *messages.ResumeSequence) *messages.Refused {
	r.closeSink(in)
	if r.machine.State() != core.Serving {
		r.abandonReservation(in)
		return refusal(messages.Reason_REASON_DRAINING, "replica "+r.Spec.GetName()+" is draining", retryAfter)
	}
	request, tokens := r.batchRequest(ctx, in.id, in.offer.GetSequence(), msg.GetOutput()), int(msg.GetTokens())
	var why *batch.Refusal
	switch {
	case in.reservation == nil:
		_, why = r.batch.Submit(request)
	case !in.sink.complete(tokens, int(r.Spec.GetBlockTokens())):
		r.abandonReservation(in)
		return refusal(messages.Reason_REASON_CONFLICT, "not all blocks have arrived", 0)
	default:
		why = r.batch.Adopt(in.reservation, request, tokens)
	}
	if why != nil {
		return refusedByBatch(why)
	}
	r.sequences[in.id] = &activeSequence{
		session: pidOf(in.offer.GetSession()), spec: in.offer.GetSequence(), logprobs: msg.GetLogprobs(),
	}
	if n := len(msg.GetLogprobs()); n > 0 {
		r.sequences[in.id].outputBase = len(msg.GetOutput()) - n
	}
	r.machine.Arrived(in.id, in.offer.GetSequence().GetAdapterSpec().Key(), r.sequences[in.id].outputBase)
	return nil
}

// onAbandon releases a sequence that the source has taken back or no longer has.
func (r *replica) onAbandon(ctx actor.Context, msg *messages.AbandonSequence) {
	in := r.incoming[msg.GetRequestId()]
	if in == nil || in.attempt != msg.GetAttempt() {
		r.withdrawOffer(ctx, msg)
		return
	}
	if _, here := r.sequences[in.id]; here && in.adopted() && !in.claimed {
		r.abortIfMigrating(ctx, in.id, "the source took it back")
		r.machine.Remove(in.id)
		delete(r.sequences, in.id)
	}
	r.releaseIncoming(ctx, in)
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// withdrawOffer removes a postponed offer.
func (r *replica) withdrawOffer(ctx actor.Context, msg *messages.AbandonSequence) {
	r.pendingOffers = slices.DeleteFunc(r.pendingOffers, func(o pendingOffer) bool {
		over := o.offer.GetRequestId() == msg.GetRequestId() && o.offer.GetAttempt() == msg.GetAttempt()
		if over {
			r.releaseAdapter(ctx, &incoming{id: msg.GetRequestId(), offer: o.offer})
		}
		return over
	})
	r.syncPins(ctx)
}

// onExpire releases the reservation for a sequence if no message or block has arrived within
// incomingTimeout. It also drops an answer that is no longer requested.
func (r *replica) onExpire(ctx actor.Context, msg *expireIncoming) {
	in := r.incoming[msg.id]
	if msg.incarnation != r.incarnation || in == nil || in.attempt != msg.attempt {
		return
	}
	heard := in.lastHeard
	if in.sink != nil {
		heard = in.sink.lastChunkAt(heard)
	}
	if left := incomingTimeout - time.Since(heard); left > 0 {
		supervise.After(ctx, left, msg)
		return
	}
	r.releaseIncoming(ctx, in)
	r.advance(ctx)
}

// markClaimed records that the session of an incoming sequence has contacted this replica.
func (r *replica) markClaimed(id string) {
	if in := r.incoming[id]; in != nil && in.adopted() {
		in.claimed = true
	}
}

// releaseIncoming forgets an incoming sequence and releases its reservation.
func (r *replica) releaseIncoming(ctx actor.Context, in *incoming) {
	r.closeSink(in)
	r.abandonReservation(in)
	delete(r.incoming, in.id)
	r.unwatchUnused(ctx, in.source)
}

// closeSink rejects further blocks. It waits for a write in progress, so that the blocks can be
// used by others afterwards.
func (r *replica) closeSink(in *incoming) {
	if in.sink != nil && in.sink.close() {
		r.Bulk.Drop(in.ticket)
	}
}

func (r *replica) abandonReservation(in *incoming) {
	if in.reservation != nil {
		r.batch.Abandon(in.reservation)
	}
}

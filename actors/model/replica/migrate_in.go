package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	core "troupe/core/replica"
	"troupe/messages"
)

// incoming is a sequence from another replica: first the reservation for it, then the answer to be
// repeated.
type incoming struct {
	id           string
	attempt      uint64
	source       *actor.PID
	offer        *messages.OfferSequence
	offerResult  *messages.OfferSequenceResult
	resumeResult *messages.ResumeSequenceResult // nil: not resumed yet

	reservation *batch.Reservation // nil: a waiting sequence without blocks
	sink        *transferSink      // receives its blocks
	ticket      *messages.BulkTicket
	lastHeard   time.Time
	claimed     bool // its session has contacted this replica, so the source can no longer abandon it
}

func (in *incoming) adopted() bool {
	return in.resumeResult != nil && in.resumeResult.GetRefused() == nil
}

// expireIncoming is a message to self.
type expireIncoming struct {
	incarnation uint64
	id          string
	attempt     uint64
}

// onOffer reserves blocks for a sequence. That is possible only between two steps, so the offer may
// be postponed.
func (r *replica) onOffer(ctx actor.Context, msg *messages.OfferSequence) {
	if in := r.incoming[msg.GetRequestId()]; in != nil {
		same := in.source.Equal(ctx.Sender())
		_, here := r.sequences[in.id]
		switch {
		case same && in.attempt == msg.GetAttempt():
			ctx.Respond(in.offerResult)
			return
		case same && in.attempt > msg.GetAttempt(): // delayed duplicate
			return
		case same && !in.adopted(), in.adopted() && !here: // a new attempt, or the sequence has ended here
			r.releaseIncoming(ctx, in)
		}
	}
	if !r.machine.Stepping() {
		r.answerOffer(ctx, pendingOffer{ctx.Sender(), msg, time.Now()})
		return
	}
	r.postponeOffer(pendingOffer{ctx.Sender(), msg, time.Now()})
}

// pendingOffer is an offer that waits for the end of a step, or for its adapter.
type pendingOffer struct {
	source *actor.PID
	offer  *messages.OfferSequence
	since  time.Time
}

// postponeOffer queues an offer, at most one per sequence.
func (r *replica) postponeOffer(o pendingOffer) {
	for i, p := range r.pendingOffers {
		if p.offer.GetRequestId() == o.offer.GetRequestId() && p.source.Equal(o.source) {
			r.pendingOffers[i].offer = o.offer
			return
		}
	}
	if len(r.pendingOffers) < 2*maxIncoming { // otherwise the source repeats it
		r.pendingOffers = append(r.pendingOffers, o)
	}
}

// answerOffers answers the postponed offers. Call it between two steps.
func (r *replica) answerOffers(ctx actor.Context) {
	offers := r.pendingOffers
	r.pendingOffers = nil
	for _, o := range offers {
		r.answerOffer(ctx, o)
	}
}

func (r *replica) answerOffer(ctx actor.Context, o pendingOffer) {
	source, msg := o.source, o.offer
	if in := r.incoming[msg.GetRequestId()]; in != nil && in.source.Equal(source) && in.attempt == msg.GetAttempt() {
		ctx.Request(source, in.offerResult) // the offer was repeated during the step
		return
	}
	in := &incoming{id: msg.GetRequestId(), attempt: msg.GetAttempt(), source: source, offer: msg,
		lastHeard: time.Now()}
	refused, loading := r.reserve(ctx, in)
	if loading && time.Since(o.since) < adapterTimeout {
		r.postponeOffer(o)
		return
	}
	if refused != nil {
		r.releaseAdapter(ctx, in)
		ctx.Request(source, &messages.OfferSequenceResult{
			RequestId: in.id, Attempt: in.attempt, Outcome: &messages.OfferSequenceResult_Refused{Refused: refused},
		})
		return
	}
	accepted := &messages.SequenceOffered{Ticket: in.ticket}
	if in.reservation != nil {
		for i := in.reservation.Resident; i < len(msg.GetHashes()); i++ {
			accepted.Missing = append(accepted.Missing, uint32(i))
		}
	}
	in.offerResult = &messages.OfferSequenceResult{
		RequestId: in.id, Attempt: in.attempt, Outcome: &messages.OfferSequenceResult_Accepted{Accepted: accepted},
	}
	r.incoming[in.id] = in
	ctx.Watch(source)
	ctx.Request(source, in.offerResult)
	supervise.After(ctx, incomingTimeout, &expireIncoming{r.incarnation, in.id, in.attempt})
}

// reserve reserves the blocks of an offer and pins its adapter. If loading is true, it must be
// called again once the adapter is loaded.
func (r *replica) reserve(ctx actor.Context, in *incoming) (refused *messages.Refused, loading bool) {
	if refused := r.checkOffer(in.offer); refused != nil {
		return refused, false
	}
	if r.registerAdapter(ctx, in.offer.GetSequence().GetAdapterSpec()); in.offer.GetTokens() == 0 {
		return nil, false
	}
	reservation, why := r.batch.Reserve(r.batchRequest(ctx, in.id, in.offer.GetSequence(), nil),
		hashesOf(in.offer.GetHashes()), int(in.offer.GetTokens()))
	if why != nil {
		r.syncPins(ctx)
		return refusedByBatch(why), why.Reason == batch.AdapterLoading
	}
	life, blocks := r.life, r.blocks
	write := func(index uint32, b []byte) error { return blocks.Write(life, reservation.Blocks[index], b) }
	sink := &transferSink{write: write, resident: reservation.Resident, received: make([]bool, len(reservation.Blocks))}
	ticket, err := r.Bulk.Expect(r.blocks.BlockBytes(), uint32(len(reservation.Blocks)), sink.put)
	if err != nil {
		r.batch.Abandon(reservation)
		return refusal(messages.Reason_REASON_NOT_READY, "data plane: "+err.Error(), retryAfter), false
	}
	in.reservation, in.sink, in.ticket = reservation, sink, ticket
	return nil, false
}

// releaseAdapter unpins the adapter of a sequence that does not arrive.
func (r *replica) releaseAdapter(ctx actor.Context, in *incoming) {
	if r.batch != nil {
		r.batch.ReleaseAdapter(r.batchRequest(ctx, in.id, in.offer.GetSequence(), nil))
	}
}

func (r *replica) checkOffer(msg *messages.OfferSequence) *messages.Refused {
	name := "replica " + r.Spec.GetName()
	_, here := r.sequences[msg.GetRequestId()]
	switch {
	case r.machine.State() == core.Draining:
		return refusal(messages.Reason_REASON_DRAINING, name+" is draining", retryAfter)
	case r.machine.State() != core.Serving:
		return refusal(messages.Reason_REASON_NOT_READY, name+" is not serving yet", retryAfter)
	case r.blocks == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED, name+" has no data plane to move KV blocks over", 0)
	case here || r.incoming[msg.GetRequestId()] != nil:
		return refusal(messages.Reason_REASON_ALREADY_EXISTS,
			"request "+msg.GetRequestId()+" is already on "+name, 0)
	case r.incomingCount() >= maxIncoming:
		return refusal(messages.Reason_REASON_QUEUE_FULL, name+" has the maximum number of incoming sequences",
			retryQueueFull)
	case msg.GetSequence().GetModel() != r.Spec.GetModel() || msg.GetLayout() != r.blocks.Layout() ||
		msg.GetBlockTokens() != r.Spec.GetBlockTokens() || msg.GetBlockBytes() != uint64(r.blocks.BlockBytes()):
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, name+" has other KV blocks: "+r.blocks.Layout(), 0)
	case len(msg.GetSequence().GetPrompt())+int(msg.GetSequence().GetSampling().GetMaxTokens()) > r.machine.Context():
		return refusal(messages.Reason_REASON_TOO_LONG, "the context exceeds the limit of "+name, 0)
	}
	if other := r.checkRevision(msg.GetRevisionDigest()); other != nil {
		return other
	}
	return r.checkAdapter(msg.GetSequence())
}

// incomingCount returns the number of sequences that are still arriving.
func (r *replica) incomingCount() (n int) {
	for _, in := range r.incoming {
		if in.resumeResult == nil {
			n++
		}
	}
	return n
}

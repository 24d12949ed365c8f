package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// arrival is a sequence that comes from another replica: room for it, then the memory of what was answered.
type arrival struct {
	id      string
	attempt uint64
	source  *actor.PID
	offer   *messages.OfferSequence
	offered *messages.OfferSequenceResult
	resumed *messages.ResumeSequenceResult // nil: not yet

	room   *batch.Reservation // nil: it waits, and brings no blocks
	inlet  *inlet             // where its blocks come in
	ticket *messages.BulkTicket
	heard  time.Time
	spoken bool // its session has asked for it here: it is no longer the source's to abandon
}

func (a *arrival) adopted() bool { return a.resumed != nil && a.resumed.GetRefused() == nil }

// expire is a note to self.
type expire struct {
	incarnation uint64
	id          string
	attempt     uint64
}

// onOffer makes room between two steps, which is when blocks are given out.
func (r *replica) onOffer(ctx actor.Context, msg *messages.OfferSequence) {
	if a := r.arrivals[msg.GetRequestId()]; a != nil {
		same := a.source.Equal(ctx.Sender())
		_, here := r.calls[a.id]
		switch {
		case same && a.attempt == msg.GetAttempt():
			ctx.Respond(a.offered)
			return
		case same && a.attempt > msg.GetAttempt(): // it was late
			return
		case same && !a.adopted(), a.adopted() && !here: // the source begins anew, or it has come and gone
			r.release(ctx, a)
		}
	}
	if r.step == nil && len(r.solo) == 0 {
		r.makeRoom(ctx, offered{ctx.Sender(), msg, time.Now()})
		return
	}
	r.postpone(offered{ctx.Sender(), msg, time.Now()})
}

// offered is an offer that waits for the end of a step, or for its adapter.
type offered struct {
	source *actor.PID
	offer  *messages.OfferSequence
	since  time.Time
}

// postpone keeps an offer, one of each sequence.
func (r *replica) postpone(o offered) {
	for i, p := range r.offers {
		if p.offer.GetRequestId() == o.offer.GetRequestId() && p.source.Equal(o.source) {
			r.offers[i].offer = o.offer
			return
		}
	}
	if len(r.offers) < 2*maxArrivals { // else it is repeated
		r.offers = append(r.offers, o)
	}
}

// takeOffers makes room for those that were postponed. No step is in flight.
func (r *replica) takeOffers(ctx actor.Context) {
	offers := r.offers
	r.offers = nil
	for _, o := range offers {
		r.makeRoom(ctx, o)
	}
}

func (r *replica) makeRoom(ctx actor.Context, o offered) {
	source, msg := o.source, o.offer
	if a := r.arrivals[msg.GetRequestId()]; a != nil && a.source.Equal(source) && a.attempt == msg.GetAttempt() {
		ctx.Request(source, a.offered) // offered twice during the step
		return
	}
	a := &arrival{id: msg.GetRequestId(), attempt: msg.GetAttempt(), source: source, offer: msg, heard: time.Now()}
	refused, loading := r.reserve(ctx, a)
	if loading && time.Since(o.since) < adapterWithin {
		r.postpone(o)
		return
	}
	if refused != nil {
		r.giveUp(a)
		ctx.Request(source, &messages.OfferSequenceResult{
			RequestId: a.id, Attempt: a.attempt, Outcome: &messages.OfferSequenceResult_Refused{Refused: refused},
		})
		return
	}
	accepted := &messages.SequenceOffered{Ticket: a.ticket}
	if a.room != nil {
		for i := a.room.Resident; i < len(msg.GetHashes()); i++ {
			accepted.Missing = append(accepted.Missing, uint32(i))
		}
	}
	a.offered = &messages.OfferSequenceResult{
		RequestId: a.id, Attempt: a.attempt, Outcome: &messages.OfferSequenceResult_Accepted{Accepted: accepted},
	}
	r.arrivals[a.id] = a
	ctx.Watch(source)
	ctx.Request(source, a.offered)
	supervise.After(ctx, keepFor, &expire{r.incarnation, a.id, a.attempt})
}

// reserve takes the room that an offer asks for, and holds its adapter. Loading: it is to be tried again when that has come.
func (r *replica) reserve(ctx actor.Context, a *arrival) (refused *messages.Refused, loading bool) {
	if refused := r.refuseOffer(a.offer); refused != nil {
		return refused, false
	}
	if r.noteAdapter(ctx, a.offer.GetSequence().GetAdapterSpec()); a.offer.GetTokens() == 0 {
		return nil, false
	}
	room, why := r.batch.Reserve(r.request(a.id, a.offer.GetSequence(), nil), hashesOf(a.offer.GetHashes()), int(a.offer.GetTokens()))
	if why != nil {
		r.askPool(ctx)
		return refusedByBatch(why), why.Reason == batch.AdapterLoading
	}
	life, blocks := r.life, r.blocks
	write := func(index uint32, b []byte) error { return blocks.Write(life, room.Blocks[index], b) }
	in := &inlet{write: write, resident: room.Resident, got: make([]bool, len(room.Blocks))}
	ticket, err := r.Bulk.Expect(r.blocks.BlockBytes(), uint32(len(room.Blocks)), in.put)
	if err != nil {
		r.batch.Abandon(room)
		return refusal(messages.Reason_REASON_NOT_READY, "data plane: "+err.Error(), retryAfter), false
	}
	a.room, a.inlet, a.ticket = room, in, ticket
	return nil, false
}

// giveUp lets the adapter go of a sequence that does not come.
func (r *replica) giveUp(a *arrival) {
	if r.batch != nil {
		r.batch.ReleaseAdapter(r.request(a.id, a.offer.GetSequence(), nil))
	}
}

func (r *replica) refuseOffer(msg *messages.OfferSequence) *messages.Refused {
	name := "replica " + r.Spec.GetName()
	_, here := r.calls[msg.GetRequestId()]
	switch {
	case r.state == messages.ReplicaState_REPLICA_STATE_DRAINING:
		return refusal(messages.Reason_REASON_DRAINING, name+" is draining", retryAfter)
	case r.state != messages.ReplicaState_REPLICA_STATE_SERVING:
		return refusal(messages.Reason_REASON_NOT_READY, name+" is not serving yet", retryAfter)
	case r.blocks == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED, name+" has no data plane to move KV blocks over", 0)
	case here || r.arrivals[msg.GetRequestId()] != nil:
		return refusal(messages.Reason_REASON_ALREADY_EXISTS, "request "+msg.GetRequestId()+" is on "+name+" already", 0)
	case r.arriving() >= maxArrivals:
		return refusal(messages.Reason_REASON_QUEUE_FULL, name+" takes in as many sequences as it can at once", retryFull)
	case msg.GetSequence().GetModel() != r.Spec.GetModel() || msg.GetLayout() != r.blocks.Layout() ||
		msg.GetBlockTokens() != r.Spec.GetBlockTokens() || msg.GetBlockBytes() != uint64(r.blocks.BlockBytes()):
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, name+" has other KV blocks: "+r.blocks.Layout(), 0)
	case len(msg.GetSequence().GetPrompt())+int(msg.GetSequence().GetSampling().GetMaxTokens()) > r.context:
		return refusal(messages.Reason_REASON_TOO_LONG, name+" has no room for a context that long", 0)
	}
	if other := r.otherRevision(msg.GetRevisionDigest()); other != nil {
		return other
	}
	return r.refuseAdapter(msg.GetSequence())
}

// arriving is how many sequences are on their way here.
func (r *replica) arriving() (n int) {
	for _, a := range r.arrivals {
		if a.resumed == nil {
			n++
		}
	}
	return n
}

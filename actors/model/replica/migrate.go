package replica

import (
	"cmp"
	"context"
	"hash"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Blocks are the KV blocks of the replica's lease, read and written beside the engine's steps; see engine.Blocks.
type Blocks interface {
	kvstore.LayeredBlocks
	Layout() string // blocks of equal layouts are interchangeable
	Close() error
}

// Bulk is the node's data plane. A transfer is a number of chunks; here chunk i is block i of a sequence.
type Bulk interface {
	// Expect makes ready for a transfer. Put is called with each chunk that comes, from any goroutine, until Drop.
	Expect(chunkBytes int, chunks uint32, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	// ExpectSealed likewise, of chunks that end with their seal: 8 bytes, big-endian, the sum of those before. Put gets none whose seal is another.
	ExpectSealed(chunkBytes int, chunks uint32, seal func(index uint32, bytes int) hash.Hash64, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(*messages.BulkTicket)
	// Send returns when the other side has put all of the chunks, or the context ends. It may be called for a ticket again.
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32, read func(index uint32, into []byte) (int, error)) error
}

const (
	maxDepartures = 4                       // sequences that leave at once; the others of a command wait
	maxArrivals   = 8                       // sequences that come at once; further offers are refused
	maxOrders     = 16                      // commands whose answers are remembered
	repeatEvery   = 250 * time.Millisecond  // a message to the target that is not answered
	repeatMost    = 8                       // times; then the target is taken for lost
	moveWithin    = 2 * time.Minute         // from the offer on, and
	pauseWithin   = 2 * time.Second         // from the pause on; then the sequence goes on here
	adapterWithin = 1500 * time.Millisecond // of an offer, its adapter must be there; before the source takes this replica for lost
	keepFor       = 5 * time.Second         // room for a sequence of which nothing was heard
)

// order is a MigrateSequences command: being carried out, or done.
type order struct {
	command *messages.MigrateSequences
	asker   *actor.PID
	waiting []string // sequences whose turn has not come
	leaving int
	result  *messages.MigrateSequencesResult
	done    bool
}

func (r *replica) receiveMigration(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *messages.MigrateSequences:
		r.onMigrate(ctx, msg)
	case *messages.OfferSequence:
		r.onOffer(ctx, msg)
	case *messages.OfferSequenceResult:
		r.onOffered(ctx, msg)
	case *messages.ResumeSequence:
		r.onResume(ctx, msg)
	case *messages.ResumeSequenceResult:
		r.onResumed(ctx, msg)
	case *messages.AbandonSequence:
		r.onAbandon(ctx, msg)
	case *sent:
		r.onSent(ctx, msg)
	case *repeat:
		r.onRepeat(ctx, msg)
	case *expire:
		r.onExpire(ctx, msg)
	}
}

// betweenSteps does what waited for the end of a step.
func (r *replica) betweenSteps(ctx actor.Context) {
	for _, d := range r.departures {
		if d.stage == pausing {
			r.paused(ctx, d)
		}
	}
	r.depart(ctx)
	if len(r.solo) > 0 {
		return
	}
	r.takeOffers(ctx)
}

// inFlight reports whether a step computes a sequence, or is going to.
func (r *replica) inFlight(id string) bool {
	holds := func(entries []batch.Entry) bool {
		return slices.ContainsFunc(entries, func(e batch.Entry) bool { return e.ID == id })
	}
	return r.step != nil && holds(r.step.entries) || holds(r.solo)
}

func (r *replica) onMigrate(ctx actor.Context, msg *messages.MigrateSequences) {
	for _, o := range r.orders {
		if o.command.GetRequestId() == msg.GetRequestId() {
			if o.asker = ctx.Sender(); o.done {
				ctx.Respond(o.result)
			}
			return
		}
	}
	if refused := r.refuseMigrate(ctx, msg); refused != nil {
		ctx.Respond(&messages.MigrateSequencesResult{RequestId: msg.GetRequestId(), Refused: refused})
		return
	}
	r.term = max(r.term, msg.GetTerm())
	o := &order{command: msg, asker: ctx.Sender(), waiting: slices.Clone(msg.GetRequestIds()), result: &messages.MigrateSequencesResult{RequestId: msg.GetRequestId()}}
	if len(o.waiting) == 0 {
		for id := range r.calls {
			o.waiting = append(o.waiting, id)
		}
		slices.Sort(o.waiting)
	}
	if len(r.orders) == maxOrders {
		r.orders = r.orders[1:]
	}
	r.orders = append(r.orders, o)
	r.depart(ctx)
	r.advance(ctx)
}

func (r *replica) refuseMigrate(ctx actor.Context, msg *messages.MigrateSequences) *messages.Refused {
	full := func(o *order) bool { return !o.done }
	switch {
	case r.batch == nil:
		return refusal(messages.Reason_REASON_NOT_READY, "replica "+r.Spec.GetName()+" is not serving yet", retryAfter)
	case r.blocks == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED, "replica "+r.Spec.GetName()+" has no data plane to move KV blocks over", 0)
	case msg.GetTerm() != 0 && msg.GetTerm() < r.term:
		return refusal(messages.Reason_REASON_STALE_TERM, "a newer reign has spoken to replica "+r.Spec.GetName(), 0)
	case msg.GetTarget() == "" || msg.GetTargetActor() == nil || pidOf(msg.GetTargetActor()).Equal(ctx.Self()):
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, "name another replica of the model as the target", 0)
	case len(r.orders) == maxOrders && full(r.orders[0]):
		return refusal(messages.Reason_REASON_QUEUE_FULL, "replica "+r.Spec.GetName()+" carries out as many moves as it can", retryFull)
	}
	return nil
}

// depart lets the next sequences leave, as many as may at once, and answers the commands that are carried out.
func (r *replica) depart(ctx actor.Context) {
	for _, o := range r.orders {
		o.waiting = slices.DeleteFunc(o.waiting, func(id string) bool {
			switch _, here := r.calls[id]; {
			case !here:
				o.report(&messages.SequenceMigration{RequestId: id, Detail: "it is not on this replica, or has finished"})
			case r.departures[id] != nil:
				o.report(&messages.SequenceMigration{RequestId: id, Detail: "it is being moved already"})
			case len(r.departures) >= maxDepartures || !r.offer(ctx, o, id):
				return false
			}
			return true
		})
		if !o.done && len(o.waiting) == 0 && o.leaving == 0 {
			o.done = true
			slices.SortFunc(o.result.GetSequences(), func(a, b *messages.SequenceMigration) int { return cmp.Compare(a.GetRequestId(), b.GetRequestId()) })
			if o.asker != nil {
				ctx.Send(o.asker, o.result)
			}
		}
	}
}

// report adds how one sequence fared. The result is sent once all are there, and never changed after that.
func (o *order) report(m *messages.SequenceMigration) {
	o.result.Sequences = append(o.result.Sequences, m)
}

// endMigrations leaves nothing behind that this life began: no write to its blocks is under way when it returns.
func (r *replica) endMigrations(ctx actor.Context) {
	r.end()
	for _, d := range r.departures {
		ctx.Send(d.to, &messages.AbandonSequence{RequestId: d.id, Attempt: d.attempt})
		ctx.Unwatch(d.to)
	}
	for _, a := range r.arrivals {
		r.shut(a)
		ctx.Unwatch(a.source)
	}
	if r.blocks != nil {
		_ = r.blocks.Close() // what is in the blocks is kept by lease
	}
	r.orders, r.offers, r.blocks = nil, nil, nil
	clear(r.departures)
	clear(r.arrivals)
}

// onLost: another replica is gone. What was on its way there goes on here; what was to come from there will not.
func (r *replica) onLost(ctx actor.Context, who *actor.PID) {
	for _, d := range r.departures {
		if d.to.Equal(who) {
			r.stay(ctx, d, "replica "+d.order.command.GetTarget()+" is gone")
		}
	}
	for _, a := range r.arrivals {
		if a.source.Equal(who) && !a.adopted() {
			r.release(ctx, a)
		}
	}
	r.advance(ctx)
}

// unwatch forgets another replica that nothing moves to or from any more.
func (r *replica) unwatch(ctx actor.Context, who *actor.PID) {
	for _, d := range r.departures {
		if d.to.Equal(who) {
			return
		}
	}
	for _, a := range r.arrivals {
		if a.source.Equal(who) {
			return
		}
	}
	ctx.Unwatch(who)
}

func refOf(pid *actor.PID) *messages.ActorRef {
	return &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}
}

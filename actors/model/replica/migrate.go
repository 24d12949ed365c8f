package replica

import (
	"cmp"
	"context"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Blocks gives access to the KV blocks of the replica's lease while steps run; see engine.Blocks.
type Blocks interface {
	kvstore.LayeredBlocks
	Layout() string // blocks of equal layouts are interchangeable
	Close() error
}

// Bulk is the node's data plane. A transfer consists of chunks; chunk i of a migration is block i
// of the sequence.
type Bulk interface {
	// Expect opens a transfer for receiving. It calls put with each chunk that arrives, from any
	// goroutine, until Drop.
	Expect(chunkBytes int, chunks uint32, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	// ExpectSealed is Expect for chunks that end with a seal: 8 bytes, big-endian, the sum of the
	// bytes before. Chunks with a wrong seal are not passed to put.
	ExpectSealed(chunkBytes int, chunks uint32, seal func(index uint32, bytes int) hash.Hash64,
		put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(*messages.BulkTicket)
	// Send returns when the receiver has stored all chunks or the context ends. It may be called
	// more than once for a ticket.
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32, read func(index uint32, into []byte) (int,
		error)) error
}

const (
	maxOutgoing    = 4                      // concurrent outgoing sequences; the others of a command wait
	maxIncoming    = 8                      // concurrent incoming sequences; further offers are refused
	maxMigrations  = 16                     // commands whose results are kept
	resendEvery    = 250 * time.Millisecond // between two sends of an unanswered message to the target
	maxResends     = 8                      // then the target counts as lost
	migrateTimeout = 2 * time.Minute        // from the offer to the pause
	pauseTimeout   = 2 * time.Second        // from the pause to the end; then the sequence continues here
	// adapterTimeout is the maximum time that an offer waits for its adapter. It is shorter than
	// the time after which the source gives up.
	adapterTimeout  = 1500 * time.Millisecond
	incomingTimeout = 5 * time.Second // of a reservation, after the last message or block
)

// migration is a MigrateSequences command, in progress or done.
type migration struct {
	command   *messages.MigrateSequences
	requester *actor.PID
	waiting   []string // sequences that have not started to migrate
	active    int
	result    *messages.MigrateSequencesResult
	done      bool
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
	case *sendDone:
		r.onSendDone(ctx, msg)
	case *resendTick:
		r.onResendTick(ctx, msg)
	case *expireIncoming:
		r.onExpire(ctx, msg)
	}
}

// betweenSteps performs the work that waited for the end of a step.
func (r *replica) betweenSteps(ctx actor.Context) {
	for _, d := range r.outgoing {
		if d.stage == pausing {
			r.sendLast(ctx, d)
		}
	}
	r.startMigrations(ctx)
	if len(r.isolated) > 0 {
		return
	}
	r.answerOffers(ctx)
}

// inFlight reports whether a sequence is in the step in flight or in an isolated one to come.
func (r *replica) inFlight(id string) bool {
	holds := func(entries []batch.Entry) bool {
		return slices.ContainsFunc(entries, func(e batch.Entry) bool { return e.ID == id })
	}
	return r.step != nil && holds(r.step.entries) || holds(r.isolated)
}

func (r *replica) onMigrate(ctx actor.Context, msg *messages.MigrateSequences) {
	for _, o := range r.migrations {
		if o.command.GetRequestId() == msg.GetRequestId() {
			if o.requester = ctx.Sender(); o.done {
				ctx.Respond(o.result)
			}
			return
		}
	}
	if refused := r.checkMigrate(ctx, msg); refused != nil {
		ctx.Respond(&messages.MigrateSequencesResult{RequestId: msg.GetRequestId(), Refused: refused})
		return
	}
	r.maxTerm = max(r.maxTerm, msg.GetTerm())
	o := &migration{command: msg, requester: ctx.Sender(), waiting: slices.Clone(msg.GetRequestIds()),
		result: &messages.MigrateSequencesResult{RequestId: msg.GetRequestId()}}
	if len(o.waiting) == 0 {
		for id := range r.sequences {
			o.waiting = append(o.waiting, id)
		}
		slices.Sort(o.waiting)
	}
	if len(r.migrations) == maxMigrations {
		r.migrations = r.migrations[1:]
	}
	r.migrations = append(r.migrations, o)
	r.startMigrations(ctx)
	r.advance(ctx)
}

func (r *replica) checkMigrate(ctx actor.Context, msg *messages.MigrateSequences) *messages.Refused {
	full := func(o *migration) bool { return !o.done }
	switch {
	case r.batch == nil:
		return refusal(messages.Reason_REASON_NOT_READY, "replica "+r.Spec.GetName()+" is not serving yet", retryAfter)
	case r.blocks == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED,
			"replica "+r.Spec.GetName()+" has no data plane to move KV blocks over", 0)
	case msg.GetTerm() != 0 && msg.GetTerm() < r.maxTerm:
		return refusal(messages.Reason_REASON_STALE_TERM, fmt.Sprintf("stale term %d for replica %s (current %d)",
			msg.GetTerm(), r.Spec.GetName(), r.maxTerm), 0)
	case msg.GetTarget() == "" || msg.GetTargetActor() == nil || pidOf(msg.GetTargetActor()).Equal(ctx.Self()):
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, "name another replica of the model as the target", 0)
	case len(r.migrations) == maxMigrations && full(r.migrations[0]):
		return refusal(messages.Reason_REASON_QUEUE_FULL,
			"replica "+r.Spec.GetName()+" has the maximum number of migrations in progress", retryQueueFull)
	}
	return nil
}

// startMigrations starts as many outgoing migrations as the limit allows, and answers the commands
// that are done.
func (r *replica) startMigrations(ctx actor.Context) {
	for _, o := range r.migrations {
		o.waiting = slices.DeleteFunc(o.waiting, func(id string) bool {
			switch _, here := r.sequences[id]; {
			case !here:
				o.addReport(&messages.SequenceMigration{RequestId: id,
					Detail: "not on this replica, or finished"})
			case r.outgoing[id] != nil:
				o.addReport(&messages.SequenceMigration{RequestId: id, Detail: "already migrating"})
			case len(r.outgoing) >= maxOutgoing || !r.offerSequence(ctx, o, id):
				return false
			}
			return true
		})
		if !o.done && len(o.waiting) == 0 && o.active == 0 {
			o.done = true
			slices.SortFunc(o.result.GetSequences(),
				func(a, b *messages.SequenceMigration) int { return cmp.Compare(a.GetRequestId(), b.GetRequestId()) })
			if o.requester != nil {
				ctx.Send(o.requester, o.result)
			}
		}
	}
}

// addReport adds the result of one sequence. The command's result is sent once it is complete, and
// does not change afterwards.
func (o *migration) addReport(m *messages.SequenceMigration) {
	o.result.Sequences = append(o.result.Sequences, m)
}

// abortMigrations ends everything that this incarnation has started. When it returns, no write to
// its blocks is in progress.
func (r *replica) abortMigrations(ctx actor.Context) {
	r.cancel()
	for _, d := range r.outgoing {
		ctx.Send(d.target, &messages.AbandonSequence{RequestId: d.id, Attempt: d.attempt})
		ctx.Unwatch(d.target)
	}
	for _, a := range r.incoming {
		r.closeSink(a)
		ctx.Unwatch(a.source)
	}
	if r.blocks != nil {
		_ = r.blocks.Close() // the content of the blocks belongs to the lease
	}
	r.migrations, r.pendingOffers, r.blocks = nil, nil, nil
	clear(r.outgoing)
	clear(r.incoming)
}

// onPeerLost handles the loss of another replica: sequences that were migrating to it continue
// here, and reservations for sequences from it are released.
func (r *replica) onPeerLost(ctx actor.Context, who *actor.PID) {
	for _, d := range r.outgoing {
		if d.target.Equal(who) {
			r.abortMigration(ctx, d, "replica "+d.migration.command.GetTarget()+" is gone")
		}
	}
	for _, a := range r.incoming {
		if a.source.Equal(who) && !a.adopted() {
			r.releaseIncoming(ctx, a)
		}
	}
	r.advance(ctx)
}

// unwatchUnused stops watching a replica that takes part in no migration.
func (r *replica) unwatchUnused(ctx actor.Context, who *actor.PID) {
	for _, d := range r.outgoing {
		if d.target.Equal(who) {
			return
		}
	}
	for _, a := range r.incoming {
		if a.source.Equal(who) {
			return
		}
	}
	ctx.Unwatch(who)
}

func refOf(pid *actor.PID) *messages.ActorRef {
	return &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}
}

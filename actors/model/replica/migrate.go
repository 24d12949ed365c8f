package replica

import (
	"cmp"
	"context"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
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
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
}

const (
	maxOutgoing    = 4                      // concurrent outgoing sequences; the others of a command wait
	maxIncoming    = 8                      // concurrent incoming sequences; further offers are refused
	maxMigrations  = 16                     // commands whose results are kept
	resendEvery    = 250 * time.Millisecond // between two sends of an unanswered message to the target
	maxResends     = 8                      // then the target counts as lost
	migrateTimeout = 2 * time.Minute        // from the offer; then the sequence continues here
	pauseTimeout   = 2 * time.Second        // from the pause; likewise
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
	default:
		supervise.Unknown(ctx, "replica")
	}
}

// betweenSteps does the work that waited for the end of a step.
func (r *replica) betweenSteps(ctx actor.Context) {
	for _, out := range r.outgoing {
		if out.stage == pausing {
			r.sendLast(ctx, out)
		}
	}
	r.startMigrations(ctx)
	if r.machine.Stepping() {
		return
	}
	r.answerOffers(ctx)
}

func (r *replica) onMigrate(ctx actor.Context, msg *messages.MigrateSequences) {
	for _, m := range r.migrations {
		if m.command.GetRequestId() == msg.GetRequestId() {
			if m.requester = ctx.Sender(); m.done {
				ctx.Respond(m.result)
			}
			return
		}
	}
	if refused := r.checkMigrate(ctx, msg); refused != nil {
		ctx.Respond(&messages.MigrateSequencesResult{RequestId: msg.GetRequestId(), Refused: refused})
		return
	}
	r.maxTerm = max(r.maxTerm, msg.GetTerm())
	m := &migration{command: msg, requester: ctx.Sender(), waiting: slices.Clone(msg.GetRequestIds()),
		result: &messages.MigrateSequencesResult{RequestId: msg.GetRequestId()}}
	if len(m.waiting) == 0 {
		for id := range r.sequences {
			m.waiting = append(m.waiting, id)
		}
		slices.Sort(m.waiting)
	}
	if len(r.migrations) == maxMigrations {
		r.migrations = r.migrations[1:]
	}
	r.migrations = append(r.migrations, m)
	r.startMigrations(ctx)
	r.advance(ctx)
}

func (r *replica) checkMigrate(ctx actor.Context, msg *messages.MigrateSequences) *messages.Refused {
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
	case len(r.migrations) == maxMigrations && !r.migrations[0].done:
		return refusal(messages.Reason_REASON_QUEUE_FULL,
			"replica "+r.Spec.GetName()+" has the maximum number of migrations in progress", retryQueueFull)
	}
	return nil
}

// startMigrations starts as many outgoing migrations as the limit allows, and answers the commands
// that are done.
func (r *replica) startMigrations(ctx actor.Context) {
	for _, m := range r.migrations {
		m.waiting = slices.DeleteFunc(m.waiting, func(id string) bool {
			switch _, here := r.sequences[id]; {
			case !here:
				m.addReport(&messages.SequenceMigration{RequestId: id,
					Detail: "not on this replica, or finished"})
			case r.outgoing[id] != nil:
				m.addReport(&messages.SequenceMigration{RequestId: id, Detail: "already migrating"})
			case len(r.outgoing) >= maxOutgoing || !r.offerSequence(ctx, m, id):
				return false
			}
			return true
		})
		if !m.done && len(m.waiting) == 0 && m.active == 0 {
			m.done = true
			slices.SortFunc(m.result.GetSequences(),
				func(a, b *messages.SequenceMigration) int { return cmp.Compare(a.GetRequestId(), b.GetRequestId()) })
			if m.requester != nil {
				ctx.Send(m.requester, m.result)
			}
		}
	}
}

// addReport adds the result of one sequence. The command's result is sent once it is complete, and
// does not change afterwards.
func (m *migration) addReport(seq *messages.SequenceMigration) {
	m.result.Sequences = append(m.result.Sequences, seq)
}

// abortMigrations ends everything that this incarnation has started. When it returns, no write to
// its blocks is in progress.
func (r *replica) abortMigrations(ctx actor.Context) {
	r.cancel()
	for _, out := range r.outgoing {
		ctx.Send(out.target, &messages.AbandonSequence{RequestId: out.id, Attempt: out.attempt})
		ctx.Unwatch(out.target)
	}
	for _, in := range r.incoming {
		r.closeSink(in)
		ctx.Unwatch(in.source)
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
func (r *replica) onPeerLost(ctx actor.Context, peer *actor.PID) {
	for _, out := range r.outgoing {
		if out.target.Equal(peer) {
			r.abortMigration(ctx, out, "replica "+out.migration.command.GetTarget()+" has stopped")
		}
	}
	for _, in := range r.incoming {
		if in.source.Equal(peer) && !in.adopted() {
			r.releaseIncoming(ctx, in)
		}
	}
	r.advance(ctx)
}

// unwatchUnused stops watching a replica that takes part in no migration.
func (r *replica) unwatchUnused(ctx actor.Context, peer *actor.PID) {
	for _, out := range r.outgoing {
		if out.target.Equal(peer) {
			return
		}
	}
	for _, in := range r.incoming {
		if in.source.Equal(peer) {
			return
		}
	}
	ctx.Unwatch(peer)
}

func pidOf(ref *messages.ActorRef) *actor.PID { return actor.NewPID(ref.GetAddress(), ref.GetId()) }

func refOf(pid *actor.PID) *messages.ActorRef {
	return &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}
}

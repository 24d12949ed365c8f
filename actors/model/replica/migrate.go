package replica

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/transfer"
	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/migrate"
	"troupe/messages"
)

// migrations are the sequences that migrate from and to a replica. core/migrate decides, and the
// transfers actor moves the blocks.
type migrations struct {
	source *migrate.Source
	target *migrate.Target

	transfers   *actor.PID // nil: sequences are not migrated
	incarnation uint64     // of transfers
	leaving     map[migrate.Key]*leaving
	arriving    map[migrate.Key]*arriving
}

// leaving is what the messages of an attempt to migrate a sequence from here carry.
type leaving struct {
	command proto.Message // last message to the target; repeated until it is answered
	ticket  *messages.BulkTicket
}

// arriving is what the messages of an attempt to migrate a sequence to here carry.
type arriving struct {
	offer       *messages.OfferSequence
	resume      *messages.ResumeSequence // nil before the source asked to resume the sequence
	reservation *batch.Reservation       // nil: the sequence has no blocks
	ticket      *messages.BulkTicket     // of the transfer into them
}

// Messages to self, and answers of the transfers actor.
type (
	resendTick struct {
		incarnation uint64
		key         migrate.Key
	}
	expireIncoming struct {
		incarnation uint64
		key         migrate.Key
	}
	transfersReady struct{ incarnation, transfers uint64 }
	sendDone       struct {
		incarnation uint64
		key         migrate.Key
		err         error
	}
	sinkOpened struct {
		incarnation uint64
		key         migrate.Key
		ticket      *messages.BulkTicket
		err         error
	}
	sinkHeard struct {
		incarnation uint64
		key         migrate.Key
		at          time.Time
	}
	sinkClosed struct {
		incarnation uint64
		key         migrate.Key
		complete    bool
	}
)

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
	case *resendTick:
		r.onResendTick(ctx, msg)
	case *expireIncoming:
		r.onExpire(ctx, msg)
	case *transfersReady:
		r.onTransfersReady(ctx, msg)
	case *sendDone:
		r.onSendDone(ctx, msg)
	case *sinkOpened:
		r.onSinkOpened(ctx, msg)
	case *sinkHeard:
		r.onSinkHeard(ctx, msg)
	case *sinkClosed:
		r.onSinkClosed(ctx, msg)
	default:
		supervise.Unknown(ctx, "replica")
	}
}

// newMigrations returns machines that refuse everything until openMigrations.
func (r *replica) newMigrations(ctx actor.Context) migrations {
	return migrations{
		source: migrate.NewSource(migrate.SourceConfig{
			Name: r.Spec.GetName(), Self: actorOf(ctx.Self()), BlockTokens: int(r.Spec.GetBlockTokens()),
			StepTokens: int(r.Spec.GetStepTokens()), FirstAttempt: r.lastAttempt,
		}),
		target:   migrate.NewTarget(r.Spec.GetName()),
		leaving:  make(map[migrate.Key]*leaving),
		arriving: make(map[migrate.Key]*arriving),
	}
}

// openMigrations allows migrations. It starts the transfers actor if there is a data plane.
func (r *replica) openMigrations(ctx actor.Context) {
	m := &r.migrations
	if r.Bulk == nil {
		m.source.Open(0)
		m.target.Open(migrate.Shape{})
		return
	}
	open, err := r.OpenBlocks(r.model.GetLease())
	if err != nil {
		panic(err)
	}
	incarnation := r.incarnation
	r.blocks, m.incarnation = open, 1
	m.transfers, err = ctx.SpawnNamed(transfer.Props(transfer.Config{Bulk: r.Bulk, Blocks: open,
		Ready: func(transfers uint64) any { return &transfersReady{incarnation, transfers} }}), "transfers")
	if err != nil {
		panic(err)
	}
	m.source.Open(open.BlockBytes())
	m.target.Open(migrate.Shape{Model: r.Spec.GetModel(), Layout: open.Layout(),
		BlockTokens: int(r.Spec.GetBlockTokens()), BlockBytes: open.BlockBytes()})
}

// betweenSteps does the work that waited for the end of a step.
func (r *replica) betweenSteps(ctx actor.Context) {
	if ids := r.migrations.source.Pausing(); ids != nil {
		r.performMigration(ctx, r.migrations.source.StepEnded(r.describeAll(ids), supervise.Now(ctx)))
	}
	if ids := r.migrations.source.Waiting(); ids != nil {
		r.performMigration(ctx, r.migrations.source.Start(r.describeAll(ids), supervise.Now(ctx)))
	}
	r.answerOffers(ctx)
}

// stepInFlight reports whether a step, or isolated entries to come, may read blocks.
func (r *replica) stepInFlight() bool { return r.step != nil || len(r.isolated) > 0 }

// inFlight reports whether a sequence is in the step in flight or in an isolated one to come.
func (r *replica) inFlight(id string) bool {
	holds := func(entries []batch.Entry) bool {
		return slices.ContainsFunc(entries, func(e batch.Entry) bool { return e.ID == id })
	}
	return r.step != nil && holds(r.step.entries) || holds(r.isolated)
}

// answerOffers answers the offers that wait, unless a step is in flight.
func (r *replica) answerOffers(ctx actor.Context) {
	ids := r.migrations.target.Postponed()
	if ids == nil || r.stepInFlight() {
		return
	}
	here := slices.DeleteFunc(ids, func(id string) bool { return !r.has(id) })
	r.performMigration(ctx, r.migrations.target.StepEnded(r.own(), here, supervise.Now(ctx)))
}

// has reports whether a sequence is on this replica.
func (r *replica) has(id string) bool {
	_, here := r.sequences[id]
	return here
}

func (r *replica) onMigrate(ctx actor.Context, msg *messages.MigrateSequences) {
	var all []string
	for id := range r.sequences {
		all = append(all, id) // the machine sorts them
	}
	r.performMigration(ctx, r.migrations.source.Command(commandOf(msg, ctx.Sender()), all))
	r.advance(ctx)
}

func (r *replica) onOffer(ctx actor.Context, msg *messages.OfferSequence) {
	r.performMigration(ctx, r.migrations.target.Offer(offeredOf(msg, ctx.Sender()), r.own(), r.has(msg.GetRequestId()),
		!r.stepInFlight(), supervise.Now(ctx)))
}

func (r *replica) onOffered(ctx actor.Context, msg *messages.OfferSequenceResult) {
	k, accepted := keyOf(msg), msg.GetAccepted()
	if accepted == nil {
		r.performMigration(ctx, r.migrations.source.OfferRefused(k, msg.GetRefused().GetDetail(), supervise.Now(ctx)))
	} else {
		if l := r.migrations.leaving[k]; l != nil && l.ticket == nil {
			l.ticket = accepted.GetTicket()
		}
		r.performMigration(ctx, r.migrations.source.Offered(k, actorOf(ctx.Sender()), accepted.GetMissing(),
			r.capacityOf(accepted.GetTicket()), r.describe(k.ID), supervise.Now(ctx)))
	}
	r.advance(ctx)
}

// onResume continues a sequence here if all of its blocks have arrived.
func (r *replica) onResume(ctx actor.Context, msg *messages.ResumeSequence) {
	r.performMigration(ctx, r.migrations.target.Resume(keyOf(msg), actorOf(ctx.Sender()), int(msg.GetTokens()), r.own(),
		supervise.Now(ctx)))
	r.scheduleReport(ctx)
	r.advance(ctx)
}

func (r *replica) onResumed(ctx actor.Context, msg *messages.ResumeSequenceResult) {
	k, source, now := keyOf(msg), r.migrations.source, supervise.Now(ctx)
	if refused := msg.GetRefused(); refused != nil {
		r.performMigration(ctx, source.ResumeFailed(k, refused.GetDetail(), now))
	} else {
		r.performMigration(ctx, source.Resumed(k, msg.GetIncarnation(), msg.GetNode(), now))
	}
	r.advance(ctx)
}

// onAbandon releases a sequence that the source has taken back or no longer has.
func (r *replica) onAbandon(ctx actor.Context, msg *messages.AbandonSequence) {
	k := keyOf(msg)
	if r.migrations.arriving[k] != nil {
		r.scheduleReport(ctx)
	}
	r.performMigration(ctx, r.migrations.target.Abandoned(k, r.has(k.ID), supervise.Now(ctx)))
	r.advance(ctx)
}

func (r *replica) onResendTick(ctx actor.Context, msg *resendTick) {
	if msg.incarnation == r.incarnation {
		r.performMigration(ctx, r.migrations.source.Timer(msg.key, supervise.Now(ctx)))
		r.advance(ctx)
	}
}

func (r *replica) onExpire(ctx actor.Context, msg *expireIncoming) {
	if msg.incarnation == r.incarnation {
		r.performMigration(ctx, r.migrations.target.Expire(msg.key, supervise.Now(ctx)))
		r.advance(ctx)
	}
}

// onTransfersReady handles the start of the transfers actor, or its restart after a crash that
// ended all transfers.
func (r *replica) onTransfersReady(ctx actor.Context, msg *transfersReady) {
	if msg.incarnation != r.incarnation || msg.transfers == r.migrations.incarnation {
		return
	}
	r.migrations.incarnation = msg.transfers
	r.performMigration(ctx, r.migrations.source.PlaneLost(supervise.Now(ctx)))
	r.performMigration(ctx, r.migrations.target.PlaneLost(supervise.Now(ctx)))
	r.advance(ctx)
}

func (r *replica) onSendDone(ctx actor.Context, msg *sendDone) {
	switch {
	case msg.incarnation != r.incarnation:
		return
	case msg.err != nil:
		r.performMigration(ctx, r.migrations.source.SendFailed(msg.key, msg.err.Error(), supervise.Now(ctx)))
	default:
		r.performMigration(ctx, r.migrations.source.Sent(msg.key, r.describe(msg.key.ID), supervise.Now(ctx)))
	}
	r.advance(ctx)
}

func (r *replica) onSinkOpened(ctx actor.Context, msg *sinkOpened) {
	a := r.migrations.arriving[msg.key]
	switch {
	case msg.incarnation != r.incarnation:
		return
	case msg.err != nil:
		r.performMigration(ctx, r.migrations.target.OpenFailed(msg.key, msg.err.Error(), supervise.Now(ctx)))
	default:
		if a != nil {
			a.ticket = msg.ticket
		}
		r.performMigration(ctx, r.migrations.target.Opened(msg.key, supervise.Now(ctx)))
	}
	r.advance(ctx)
}

func (r *replica) onSinkHeard(ctx actor.Context, msg *sinkHeard) {
	if msg.incarnation == r.incarnation {
		r.performMigration(ctx, r.migrations.target.Heard(msg.key, msg.at, supervise.Now(ctx)))
	}
}

func (r *replica) onSinkClosed(ctx actor.Context, msg *sinkClosed) {
	if msg.incarnation == r.incarnation {
		r.performMigration(ctx, r.migrations.target.Closed(msg.key, msg.complete, r.own(), supervise.Now(ctx)))
		r.scheduleReport(ctx)
		r.advance(ctx)
	}
}

// abortIfMigrating aborts the migration of a sequence, if there is one.
func (r *replica) abortIfMigrating(ctx actor.Context, id, why string) {
	if r.migrations.source.Migrating(id) {
		r.performMigration(ctx, r.migrations.source.Cancel(id, why, supervise.Now(ctx)))
	}
}

// markClaimed records that the session of an incoming sequence has contacted this replica.
func (r *replica) markClaimed(ctx actor.Context, id string) {
	r.migrations.target.Claim(id, supervise.Now(ctx))
}

// onPeerLost handles the loss of another replica: sequences that were migrating to it continue
// here, and reservations for sequences from it are released.
func (r *replica) onPeerLost(ctx actor.Context, peer *actor.PID) {
	now := supervise.Now(ctx)
	r.performMigration(ctx, r.migrations.source.Lost(actorOf(peer), now))
	r.performMigration(ctx, r.migrations.target.Lost(actorOf(peer), now))
	r.advance(ctx)
}

// abortMigrations ends everything that this incarnation has started. The transfers actor ends its
// reads and writes of blocks before the next incarnation starts.
func (r *replica) abortMigrations(ctx actor.Context) {
	r.cancel()
	r.performMigration(ctx, r.migrations.source.Stop(supervise.Now(ctx)))
	r.performMigration(ctx, r.migrations.target.Stop(supervise.Now(ctx)))
	if r.blocks != nil {
		_ = r.blocks.Close() // the content of the blocks belongs to the lease
	}
	r.blocks = nil
	clear(r.migrations.leaving)
	clear(r.migrations.arriving)
}

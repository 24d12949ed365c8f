package replica

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/messages"
)

// migrateStage is the stage of an outgoing migration.
type migrateStage int

const (
	offering  migrateStage = iota + 1 // the target reserves blocks
	copying                           // full blocks are being sent while the sequence continues
	pausing                           // held, and a step in flight still computes the sequence
	finishing                         // held, and the last blocks are being sent
	resuming                          // held, and the target was asked to resume it
)

// outgoing is a sequence that migrates to another replica. After any failure it continues here.
type outgoing struct {
	id         string
	attempt    uint64
	migration  *migration
	target     *actor.PID
	stage      migrateStage
	command    proto.Message // last message to the target; repeated until it is answered
	resends    int
	cancelSend context.CancelFunc // cancels the send in progress

	ticket    *messages.BulkTicket
	unsent    []uint32 // blocks that the target lacks and that are not being sent
	accounted int      // leading blocks that are sent, unsent, or resident at the target
	report    *messages.SequenceMigration
	startedAt time.Time
	pausedAt  time.Time
}

// sendDone and resendTick are notes to self.
type (
	sendDone struct {
		incarnation uint64
		id          string
		attempt     uint64
		pinned      []int32 // blocks that were read
		err         error
	}
	resendTick struct {
		incarnation uint64
		id          string
		attempt     uint64
	}
)

// offerSequence starts an outgoing migration. It reports false for a sequence in its first step,
// which must end before.
func (r *replica) offerSequence(ctx actor.Context, o *migration, id string) bool {
	c := r.sequences[id]
	p, _ := r.batch.Progress(id)
	if state, _ := r.batch.State(id); state != batch.Running {
		r.batch.Hold(id) // it has no blocks and must not get any here
	} else if p.Tokens == 0 || p.Restoring {
		return false
	}
	r.lastAttempt++
	d := &outgoing{
		id: id, attempt: r.lastAttempt, migration: o, target: pidOf(o.command.GetTargetActor()), stage: offering,
		startedAt: time.Now(), cancelSend: func() {},
		accounted: len(p.Hashes), report: &messages.SequenceMigration{RequestId: id},
	}
	// The target may have a larger context limit. The sequence must end where it would end here.
	sequence := proto.Clone(c.spec).(*messages.SequenceSpec)
	most := uint32(r.context - len(sequence.GetPrompt()))
	sequence.Sampling.MaxTokens = min(sequence.GetSampling().GetMaxTokens(), most)
	offer := &messages.OfferSequence{
		RequestId: id, Attempt: d.attempt, Sequence: sequence, Session: refOf(c.session), Tokens: uint32(p.Tokens),
		BlockTokens: r.Spec.GetBlockTokens(), BlockBytes: uint64(r.blocks.BlockBytes()), Layout: r.blocks.Layout(),
		Hashes:         bytesOf(p.Hashes),
		RevisionDigest: r.model.GetRevisionDigest(),
	}
	r.outgoing[id] = d
	o.active++
	ctx.Watch(d.target)
	r.sendCommand(ctx, d, offer)
	supervise.After(ctx, resendEvery, &resendTick{r.incarnation, id, d.attempt})
	return true
}

// sendCommand sends a message to the target, to be repeated until it is answered.
func (r *replica) sendCommand(ctx actor.Context, d *outgoing, command proto.Message) {
	d.command, d.resends = command, 0
	ctx.Request(d.target, command)
}

// findOutgoing returns the outgoing migration of an attempt, or nil if it has ended.
func (r *replica) findOutgoing(id string, attempt uint64) *outgoing {
	if d := r.outgoing[id]; d != nil && d.attempt == attempt {
		return d
	}
	return nil
}

// onResendTick repeats unanswered messages and enforces the timeouts of a migration.
func (r *replica) onResendTick(ctx actor.Context, msg *resendTick) {
	d := r.findOutgoing(msg.id, msg.attempt)
	if msg.incarnation != r.incarnation || d == nil {
		return
	}
	answered := d.stage != offering && d.stage != resuming
	switch d.resends++; {
	case !answered && d.resends > maxResends:
		r.abortMigration(ctx, d, "replica "+d.migration.command.GetTarget()+" does not answer")
	case d.stage == finishing && time.Since(d.pausedAt) > pauseTimeout:
		r.abortMigration(ctx, d, "its last blocks were not sent within "+pauseTimeout.String())
	case time.Since(d.startedAt) > migrateTimeout:
		r.abortMigration(ctx, d, "its blocks were not sent within "+migrateTimeout.String())
	default:
		if !answered {
			ctx.Request(d.target, d.command)
		}
		supervise.After(ctx, resendEvery, msg)
		return
	}
	r.advance(ctx)
}

func (r *replica) onOffered(ctx actor.Context, msg *messages.OfferSequenceResult) {
	d := r.findOutgoing(msg.GetRequestId(), msg.GetAttempt())
	accepted := msg.GetAccepted()
	switch {
	case d == nil:
		if accepted != nil && ctx.Sender() != nil { // too late: the attempt has ended
			ctx.Send(ctx.Sender(), &messages.AbandonSequence{RequestId: msg.GetRequestId(), Attempt: msg.GetAttempt()})
		}
		return
	case d.stage != offering:
		return
	case accepted == nil:
		r.abortMigration(ctx, d, msg.GetRefused().GetDetail())
	default:
		d.ticket, d.unsent = accepted.GetTicket(), slices.Clone(accepted.GetMissing())
		d.report.ReusedBlocks = uint32(d.accounted - len(d.unsent))
		r.copyRound(ctx, d)
	}
	r.advance(ctx)
}

// copyRound sends the missing full blocks while the sequence continues. It pauses the sequence if
// no more than one step's worth is left.
func (r *replica) copyRound(ctx actor.Context, d *outgoing) {
	p, _ := r.batch.Progress(d.id)
	d.addFullBlocks(p)
	if len(d.unsent) > r.stepBlocks(p) {
		d.stage = copying
		r.sendBlocks(ctx, d, p)
		return
	}
	r.batch.Hold(d.id)
	d.stage = pausing
	r.sendLast(ctx, d)
}

// addFullBlocks adds the blocks that have become full to the unsent ones.
func (d *outgoing) addFullBlocks(p batch.Progress) {
	for ; d.accounted < len(p.Hashes); d.accounted++ {
		d.unsent = append(d.unsent, uint32(d.accounted))
	}
}

// stepBlocks returns the maximum number of blocks that one step fills.
func (r *replica) stepBlocks(p batch.Progress) int {
	if p.Left <= 1 {
		return 1
	}
	return int(r.Spec.GetStepTokens()/r.Spec.GetBlockTokens()) + 1
}

// sendLast sends the remaining blocks once no step computes the sequence.
func (r *replica) sendLast(ctx actor.Context, d *outgoing) {
	if r.inFlight(d.id) {
		return
	}
	d.pausedAt = time.Now()
	p, _ := r.batch.Progress(d.id)
	d.addFullBlocks(p)
	if p.Tokens%int(r.Spec.GetBlockTokens()) > 0 {
		d.unsent = append(d.unsent, uint32(len(p.Hashes)))
	}
	d.report.Blocks = uint32((p.Tokens + int(r.Spec.GetBlockTokens()) - 1) / int(r.Spec.GetBlockTokens()))
	d.stage = finishing
	if len(d.unsent) > 0 {
		r.sendBlocks(ctx, d, p)
		return
	}
	r.commit(ctx, d)
}

// sendBlocks sends the unsent blocks. They are referenced until the send has ended, even if the
// sequence ends before.
func (r *replica) sendBlocks(ctx actor.Context, d *outgoing, p batch.Progress) {
	indices, blocks, bulk, ticket, table := d.unsent, r.blocks, r.Bulk, d.ticket, p.Blocks
	size := blocks.BlockBytes()
	if last := uint64(indices[len(indices)-1]); (last+1)*uint64(size) > ticket.GetBytes() {
		r.abortMigration(ctx, d, "it grew beyond the blocks of the transfer")
		return
	}
	note := sendDone{incarnation: r.incarnation, id: d.id, attempt: d.attempt}
	for _, i := range indices {
		note.pinned = append(note.pinned, table[i])
	}
	r.pool.Retain(note.pinned)
	d.unsent = nil
	d.report.Bytes += uint64(len(indices) * size)
	var life context.Context
	life, d.cancelSend = context.WithCancel(r.life)
	supervise.Job(ctx, life, func(life context.Context) (struct{}, error) {
		return struct{}{}, bulk.Send(life, ticket, indices, func(index uint32, into []byte) (int, error) {
			return size, blocks.Read(life, table[index], into[:size])
		})
	}, func(_ struct{}, err error) any {
		note.err = err
		return &note
	})
}

func (r *replica) onSendDone(ctx actor.Context, msg *sendDone) {
	if msg.incarnation != r.incarnation {
		return
	}
	r.pool.Release(msg.pinned)
	d := r.findOutgoing(msg.id, msg.attempt)
	switch {
	case d == nil:
	case msg.err != nil:
		r.abortMigration(ctx, d, "data plane: "+msg.err.Error())
	case d.stage == copying:
		r.copyRound(ctx, d)
	default:
		r.commit(ctx, d)
	}
	r.advance(ctx)
}

// commit asks the target to resume the sequence, which may run there from now on.
func (r *replica) commit(ctx actor.Context, d *outgoing) {
	p, _ := r.batch.Progress(d.id)
	_, output, _ := r.batch.Sequence(d.id)
	d.stage = resuming
	r.sendCommand(ctx, d, &messages.ResumeSequence{
		RequestId: d.id, Attempt: d.attempt, Output: output, Hashes: bytesOf(p.Hashes), Tokens: uint32(p.Tokens),
		Logprobs: slices.Clip(r.sequences[d.id].logprobs),
	})
}

// onResumed ends a migration: the sequence runs at the target, and its session is redirected.
func (r *replica) onResumed(ctx actor.Context, msg *messages.ResumeSequenceResult) {
	d := r.findOutgoing(msg.GetRequestId(), msg.GetAttempt())
	if d == nil || d.stage != resuming {
		return
	}
	if refused := msg.GetRefused(); refused != nil {
		r.abortMigration(ctx, d, refused.GetDetail())
		r.advance(ctx)
		return
	}
	d.report.Moved, d.report.PauseSeconds = true, time.Since(d.pausedAt).Seconds()
	ctx.Request(r.sequences[d.id].session, &messages.SequenceMoved{
		RequestId: d.id, Replica: d.migration.command.GetTarget(), Actor: refOf(d.target),
		Incarnation: msg.GetIncarnation(), Node: msg.GetNode(),
		From: r.Spec.GetName(), Cause: d.migration.command.GetCause(), Report: proto.CloneOf(d.report),
	})
	r.batch.Drop(d.id)
	delete(r.sequences, d.id)
	r.totals.migratedOut++
	r.endMigration(ctx, d)
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// abortMigration ends a migration. The sequence continues here if it still exists.
func (r *replica) abortMigration(ctx actor.Context, d *outgoing, why string) {
	d.report.Detail = why
	r.batch.Resume(d.id)
	ctx.Send(d.target, &messages.AbandonSequence{RequestId: d.id, Attempt: d.attempt})
	r.endMigration(ctx, d)
}

// abortIfMigrating aborts the migration of a sequence, if there is one.
func (r *replica) abortIfMigrating(ctx actor.Context, id, why string) {
	if d := r.outgoing[id]; d != nil {
		r.abortMigration(ctx, d, why)
	}
}

// endMigration ends a migration and starts the next one.
func (r *replica) endMigration(ctx actor.Context, d *outgoing) {
	d.cancelSend()
	d.report.Seconds = time.Since(d.startedAt).Seconds()
	r.Log.Info().Str("request", d.id).Str("target", d.migration.command.GetTarget()).Bool("moved", d.report.GetMoved()).
		Str("why", d.report.GetDetail()).Float64("pause_seconds", d.report.GetPauseSeconds()).
		Msg("sequence migration ended")
	delete(r.outgoing, d.id)
	d.migration.active--
	d.migration.addReport(d.report)
	r.unwatchUnused(ctx, d.target)
	r.startMigrations(ctx)
}

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

// sendDone and resendTick are messages to self.
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
func (r *replica) offerSequence(ctx actor.Context, m *migration, id string) bool {
	c := r.sequences[id]
	p, _ := r.batch.Progress(id)
	if state, _ := r.batch.State(id); state != batch.Running {
		r.batch.Hold(id) // it has no blocks and must not get any here
	} else if p.Tokens == 0 || p.Restoring {
		return false
	}
	r.lastAttempt++
	out := &outgoing{
		id: id, attempt: r.lastAttempt, migration: m, target: pidOf(m.command.GetTargetActor()), stage: offering,
		startedAt: time.Now(), cancelSend: func() {},
		accounted: len(p.Hashes), report: &messages.SequenceMigration{RequestId: id},
	}
	// The target may have a larger context limit. The sequence must end where it would end here.
	sequence := proto.Clone(c.spec).(*messages.SequenceSpec)
	most := uint32(r.machine.Context() - len(sequence.GetPrompt()))
	sequence.Sampling.MaxTokens = min(sequence.GetSampling().GetMaxTokens(), most)
	offer := &messages.OfferSequence{
		RequestId: id, Attempt: out.attempt, Sequence: sequence, Session: refOf(c.session), Tokens: uint32(p.Tokens),
		BlockTokens: r.Spec.GetBlockTokens(), BlockBytes: uint64(r.blocks.BlockBytes()), Layout: r.blocks.Layout(),
		Hashes:         bytesOf(p.Hashes),
		RevisionDigest: r.model.GetRevisionDigest(),
	}
	r.outgoing[id] = out
	m.active++
	ctx.Watch(out.target)
	r.sendCommand(ctx, out, offer)
	supervise.After(ctx, resendEvery, &resendTick{r.incarnation, id, out.attempt})
	return true
}

// sendCommand sends a message to the target, to be repeated until it is answered.
func (r *replica) sendCommand(ctx actor.Context, out *outgoing, command proto.Message) {
	out.command, out.resends = command, 0
	ctx.Request(out.target, command)
}

// findOutgoing returns the outgoing migration of an attempt, or nil if it has ended.
func (r *replica) findOutgoing(id string, attempt uint64) *outgoing {
	if out := r.outgoing[id]; out != nil && out.attempt == attempt {
		return out
	}
	return nil
}

// onResendTick repeats unanswered messages and enforces the timeouts of a migration.
func (r *replica) onResendTick(ctx actor.Context, msg *resendTick) {
	out := r.findOutgoing(msg.id, msg.attempt)
	if msg.incarnation != r.incarnation || out == nil {
		return
	}
	answered := out.stage != offering && out.stage != resuming
	switch out.resends++; {
	case !answered && out.resends > maxResends:
		r.abortMigration(ctx, out, "replica "+out.migration.command.GetTarget()+" does not answer")
	case out.stage == finishing && time.Since(out.pausedAt) > pauseTimeout:
		r.abortMigration(ctx, out, "its last blocks were not sent within "+pauseTimeout.String())
	case time.Since(out.startedAt) > migrateTimeout:
		r.abortMigration(ctx, out, "its blocks were not sent within "+migrateTimeout.String())
	default:
		if !answered {
			ctx.Request(out.target, out.command)
		}
		supervise.After(ctx, resendEvery, msg)
		return
	}
	r.advance(ctx)
}

func (r *replica) onOffered(ctx actor.Context, msg *messages.OfferSequenceResult) {
	out := r.findOutgoing(msg.GetRequestId(), msg.GetAttempt())
	accepted := msg.GetAccepted()
	switch {
	case out == nil:
		if accepted != nil && ctx.Sender() != nil { // too late: the attempt has ended
			ctx.Send(ctx.Sender(), &messages.AbandonSequence{RequestId: msg.GetRequestId(), Attempt: msg.GetAttempt()})
		}
		return
	case out.stage != offering:
		return
	case accepted == nil:
		r.abortMigration(ctx, out, msg.GetRefused().GetDetail())
	default:
		out.ticket, out.unsent = accepted.GetTicket(), slices.Clone(accepted.GetMissing())
		out.report.ReusedBlocks = uint32(out.accounted - len(out.unsent))
		r.copyRound(ctx, out)
	}
	r.advance(ctx)
}

// copyRound sends the missing full blocks while the sequence continues. It pauses the sequence if
// no more than one step's worth is left.
func (r *replica) copyRound(ctx actor.Context, out *outgoing) {
	p, _ := r.batch.Progress(out.id)
	out.addFullBlocks(p)
	if len(out.unsent) > r.stepBlocks(p) {
		out.stage = copying
		r.sendBlocks(ctx, out, p)
		return
	}
	r.batch.Hold(out.id)
	out.stage = pausing
	r.sendLast(ctx, out)
}

// addFullBlocks adds the blocks that have become full to the unsent ones.
func (out *outgoing) addFullBlocks(p batch.Progress) {
	for ; out.accounted < len(p.Hashes); out.accounted++ {
		out.unsent = append(out.unsent, uint32(out.accounted))
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
func (r *replica) sendLast(ctx actor.Context, out *outgoing) {
	if r.inFlight(out.id) {
		return
	}
	out.pausedAt = time.Now()
	p, _ := r.batch.Progress(out.id)
	out.addFullBlocks(p)
	if p.Tokens%int(r.Spec.GetBlockTokens()) > 0 {
		out.unsent = append(out.unsent, uint32(len(p.Hashes)))
	}
	out.report.Blocks = uint32((p.Tokens + int(r.Spec.GetBlockTokens()) - 1) / int(r.Spec.GetBlockTokens()))
	out.stage = finishing
	if len(out.unsent) > 0 {
		r.sendBlocks(ctx, out, p)
		return
	}
	r.commit(ctx, out)
}

// sendBlocks sends the unsent blocks. They are referenced until the send has ended, even if the
// sequence ends first.
func (r *replica) sendBlocks(ctx actor.Context, out *outgoing, p batch.Progress) {
	indices, blocks, bulk, ticket, table := out.unsent, r.blocks, r.Bulk, out.ticket, p.Blocks
	size := blocks.BlockBytes()
	if last := uint64(indices[len(indices)-1]); (last+1)*uint64(size) > ticket.GetBytes() {
		r.abortMigration(ctx, out, "it grew beyond the blocks of the transfer")
		return
	}
	note := sendDone{incarnation: r.incarnation, id: out.id, attempt: out.attempt}
	for _, i := range indices {
		note.pinned = append(note.pinned, table[i])
	}
	r.pool.Retain(note.pinned)
	out.unsent = nil
	out.report.Bytes += uint64(len(indices) * size)
	var life context.Context
	life, out.cancelSend = context.WithCancel(r.life)
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
	out := r.findOutgoing(msg.id, msg.attempt)
	switch {
	case out == nil:
	case msg.err != nil:
		r.abortMigration(ctx, out, "data plane: "+msg.err.Error())
	case out.stage == copying:
		r.copyRound(ctx, out)
	default:
		r.commit(ctx, out)
	}
	r.advance(ctx)
}

// commit asks the target to resume the sequence, which may run there from now on.
func (r *replica) commit(ctx actor.Context, out *outgoing) {
	p, _ := r.batch.Progress(out.id)
	_, output, _ := r.batch.Sequence(out.id)
	out.stage = resuming
	r.sendCommand(ctx, out, &messages.ResumeSequence{
		RequestId: out.id, Attempt: out.attempt, Output: output, Hashes: bytesOf(p.Hashes), Tokens: uint32(p.Tokens),
		Logprobs: slices.Clip(r.sequences[out.id].logprobs),
	})
}

// onResumed ends a migration: the sequence runs at the target, and its session is redirected.
func (r *replica) onResumed(ctx actor.Context, msg *messages.ResumeSequenceResult) {
	out := r.findOutgoing(msg.GetRequestId(), msg.GetAttempt())
	if out == nil || out.stage != resuming {
		return
	}
	if refused := msg.GetRefused(); refused != nil {
		r.abortMigration(ctx, out, refused.GetDetail())
		r.advance(ctx)
		return
	}
	out.report.Moved, out.report.PauseSeconds = true, time.Since(out.pausedAt).Seconds()
	ctx.Request(r.sequences[out.id].session, &messages.SequenceMoved{
		RequestId: out.id, Replica: out.migration.command.GetTarget(), Actor: refOf(out.target),
		Incarnation: msg.GetIncarnation(), Node: msg.GetNode(),
		From: r.Spec.GetName(), Cause: out.migration.command.GetCause(), Report: proto.CloneOf(out.report),
	})
	r.machine.Moved(out.id)
	delete(r.sequences, out.id)
	r.endMigration(ctx, out)
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// abortMigration ends a migration. The sequence continues here if it still exists.
func (r *replica) abortMigration(ctx actor.Context, out *outgoing, why string) {
	out.report.Detail = why
	r.batch.Resume(out.id)
	ctx.Send(out.target, &messages.AbandonSequence{RequestId: out.id, Attempt: out.attempt})
	r.endMigration(ctx, out)
}

// abortIfMigrating aborts the migration of a sequence, if there is one.
func (r *replica) abortIfMigrating(ctx actor.Context, id, why string) {
	if out := r.outgoing[id]; out != nil {
		r.abortMigration(ctx, out, why)
	}
}

// endMigration ends a migration and starts the next one.
func (r *replica) endMigration(ctx actor.Context, out *outgoing) {
	out.cancelSend()
	out.report.Seconds = time.Since(out.startedAt).Seconds()
	r.Log.Info().Str("request", out.id).Str("target", out.migration.command.GetTarget()).
		Bool("moved", out.report.GetMoved()).
		Str("why", out.report.GetDetail()).Float64("pause_seconds", out.report.GetPauseSeconds()).
		Msg("sequence migration ended")
	delete(r.outgoing, out.id)
	out.migration.active--
	out.migration.addReport(out.report)
	r.unwatchUnused(ctx, out.target)
	r.startMigrations(ctx)
}

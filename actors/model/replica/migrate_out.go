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

// stage of a spec that leaves.
type migrateStage int

const (
	offering  migrateStage = iota + 1 // the target makes room
	copying                           // full blocks are on their way, and the spec goes on here
	pausing                           // held; a step in flight still computes it
	finishing                         // held; the last blocks are on their way
	resuming                          // held; the target was told to go on with it
)

// findOutgoing is a spec that leaves for another replica. Whatever goes wrong, it goes on here.
type outgoing struct {
	id         string
	attempt    uint64
	migration  *migration
	target     *actor.PID
	stage      migrateStage
	command    proto.Message // the last one to the target, repeated until it is answered
	resends    int
	cancelSend context.CancelFunc // of the sending

	ticket    *messages.BulkTicket
	unsent    []uint32 // blocks that the target lacks and that were not sent
	accounted int      // leading blocks that are sent, in todo, or held by the target
	report    *messages.SequenceMigration
	startedAt time.Time
	pausedAt  time.Time
}

// sent and repeat are notes to self.
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

// offer begins a findOutgoing. It reports false for a spec that is in its first step, which must end before it.
func (r *replica) offerSequence(ctx actor.Context, o *migration, id string) bool {
	c := r.sequences[id]
	p, _ := r.batch.Progress(id)
	if state, _ := r.batch.State(id); state != batch.Running {
		r.batch.Hold(id) // it has no blocks, and shall get none here
	} else if p.Tokens == 0 || p.Restoring {
		return false
	}
	r.lastAttempt++
	d := &outgoing{
		id: id, attempt: r.lastAttempt, migration: o, target: pidOf(o.command.GetTargetActor()), stage: offering,
		startedAt: time.Now(), cancelSend: func() {},
		accounted: len(p.Hashes), report: &messages.SequenceMigration{RequestId: id},
	}
	// The target may have more room for a context than there is here: the spec ends where it would have ended.
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

// tell sends the target what it is to answer.
func (r *replica) sendCommand(ctx actor.Context, d *outgoing, command proto.Message) {
	d.command, d.resends = command, 0
	ctx.Request(d.target, command)
}

// findOutgoing finds the one of an lastAttempt; nil where that is over.
func (r *replica) findOutgoing(id string, attempt uint64) *outgoing {
	if d := r.outgoing[id]; d != nil && d.attempt == attempt {
		return d
	}
	return nil
}

// onResendTick sees to it that a findOutgoing ends, well or not.
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
		if accepted != nil && ctx.Sender() != nil { // the answer comes too late
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

// round sends the full blocks that are missing while the spec goes on, or pauses it when no more than one step's worth is left.
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

// grow takes the blocks that became full into account.
func (d *outgoing) addFullBlocks(p batch.Progress) {
	for ; d.accounted < len(p.Hashes); d.accounted++ {
		d.unsent = append(d.unsent, uint32(d.accounted))
	}
}

// stepBlocks is how many blocks one step can fill.
func (r *replica) stepBlocks(p batch.Progress) int {
	if p.Left <= 1 {
		return 1
	}
	return int(r.Spec.GetStepTokens()/r.Spec.GetBlockTokens()) + 1
}

// paused sends what is left, once no step computes the spec any more.
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

// send has blocks read and sent. They are pinned until that has ended, whatever becomes of the spec.
func (r *replica) sendBlocks(ctx actor.Context, d *outgoing, p batch.Progress) {
	indices, blocks, bulk, ticket, table := d.unsent, r.blocks, r.Bulk, d.ticket, p.Blocks
	size := blocks.BlockBytes()
	if last := uint64(indices[len(indices)-1]); (last+1)*uint64(size) > ticket.GetBytes() {
		r.abortMigration(ctx, d, "it grew faster than its blocks were sent")
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

// commit tells the target to go on. From here on the spec may run there.
func (r *replica) commit(ctx actor.Context, d *outgoing) {
	p, _ := r.batch.Progress(d.id)
	_, output, _ := r.batch.Sequence(d.id)
	d.stage = resuming
	r.sendCommand(ctx, d, &messages.ResumeSequence{
		RequestId: d.id, Attempt: d.attempt, Output: output, Hashes: bytesOf(p.Hashes), Tokens: uint32(p.Tokens),
		Logprobs: slices.Clip(r.sequences[d.id].logprobs),
	})
}

// onResumed: it runs there. This replica forgets it, and its session looks there.
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

// stay ends a findOutgoing: the spec, where it still exists, goes on here.
func (r *replica) abortMigration(ctx actor.Context, d *outgoing, why string) {
	d.report.Detail = why
	r.batch.Resume(d.id)
	ctx.Send(d.target, &messages.AbandonSequence{RequestId: d.id, Attempt: d.attempt})
	r.endMigration(ctx, d)
}

// keep ends the findOutgoing, if there is one, of a spec that can not be moved any more.
func (r *replica) abortIfMigrating(ctx actor.Context, id, why string) {
	if d := r.outgoing[id]; d != nil {
		r.abortMigration(ctx, d, why)
	}
}

// close ends a findOutgoing and lets the next one begin.
func (r *replica) endMigration(ctx actor.Context, d *outgoing) {
	d.cancelSend()
	d.report.Seconds = time.Since(d.startedAt).Seconds()
	r.Log.Info().Str("request", d.id).Str("target", d.migration.command.GetTarget()).Bool("moved", d.report.GetMoved()).
		Str("why", d.report.GetDetail()).Float64("pause_seconds", d.report.GetPauseSeconds()).Msg("sequence move ended")
	delete(r.outgoing, d.id)
	d.migration.active--
	d.migration.addReport(d.report)
	r.unwatchUnused(ctx, d.target)
	r.startMigrations(ctx)
}

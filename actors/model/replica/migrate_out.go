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

// stage of a sequence that leaves.
type stage int

const (
	offering  stage = iota + 1 // the target makes room
	copying                    // full blocks are on their way, and the sequence goes on here
	pausing                    // held; a step in flight still computes it
	finishing                  // held; the last blocks are on their way
	resuming                   // held; the target was told to go on with it
)

// departure is a sequence that leaves for another replica. Whatever goes wrong, it goes on here.
type departure struct {
	id      string
	attempt uint64
	order   *order
	to      *actor.PID
	stage   stage
	command proto.Message // the last one to the target, repeated until it is answered
	repeats int
	end     context.CancelFunc // of the sending

	ticket *messages.BulkTicket
	todo   []uint32 // blocks that the target lacks and that were not sent
	full   int      // leading blocks that are sent, in todo, or held by the target
	report *messages.SequenceMigration
	begun  time.Time
	paused time.Time
}

// sent and repeat are notes to self.
type (
	sent struct {
		incarnation uint64
		id          string
		attempt     uint64
		pinned      []int32 // blocks that were read
		err         error
	}
	repeat struct {
		incarnation uint64
		id          string
		attempt     uint64
	}
)

// offer begins a departure. It reports false for a sequence that is in its first step, which must end before it.
func (r *replica) offer(ctx actor.Context, o *order, id string) bool {
	c := r.calls[id]
	p, _ := r.batch.Progress(id)
	if state, _ := r.batch.State(id); state != batch.Running {
		r.batch.Hold(id) // it has no blocks, and shall get none here
	} else if p.Tokens == 0 || p.Restoring {
		return false
	}
	r.attempt++
	d := &departure{
		id: id, attempt: r.attempt, order: o, to: pidOf(o.command.GetTargetActor()), stage: offering, begun: time.Now(), end: func() {},
		full: len(p.Hashes), report: &messages.SequenceMigration{RequestId: id},
	}
	// The target may have more room for a context than there is here: the sequence ends where it would have ended.
	sequence := proto.Clone(c.sequence).(*messages.SequenceSpec)
	most := uint32(r.context - len(sequence.GetPrompt()))
	sequence.Sampling.MaxTokens = min(sequence.GetSampling().GetMaxTokens(), most)
	offer := &messages.OfferSequence{
		RequestId: id, Attempt: d.attempt, Sequence: sequence, Session: refOf(c.session), Tokens: uint32(p.Tokens),
		BlockTokens: r.Spec.GetBlockTokens(), BlockBytes: uint64(r.blocks.BlockBytes()), Layout: r.blocks.Layout(), Hashes: bytesOf(p.Hashes),
		RevisionDigest: r.model.GetRevisionDigest(),
	}
	r.departures[id] = d
	o.leaving++
	ctx.Watch(d.to)
	r.tell(ctx, d, offer)
	supervise.After(ctx, repeatEvery, &repeat{r.incarnation, id, d.attempt})
	return true
}

// tell sends the target what it is to answer.
func (r *replica) tell(ctx actor.Context, d *departure, command proto.Message) {
	d.command, d.repeats = command, 0
	ctx.Request(d.to, command)
}

// departure finds the one of an attempt; nil where that is over.
func (r *replica) departure(id string, attempt uint64) *departure {
	if d := r.departures[id]; d != nil && d.attempt == attempt {
		return d
	}
	return nil
}

// onRepeat sees to it that a departure ends, well or not.
func (r *replica) onRepeat(ctx actor.Context, msg *repeat) {
	d := r.departure(msg.id, msg.attempt)
	if msg.incarnation != r.incarnation || d == nil {
		return
	}
	answered := d.stage != offering && d.stage != resuming
	switch d.repeats++; {
	case !answered && d.repeats > repeatMost:
		r.stay(ctx, d, "replica "+d.order.command.GetTarget()+" does not answer")
	case d.stage == finishing && time.Since(d.paused) > pauseWithin:
		r.stay(ctx, d, "its last blocks were not sent within "+pauseWithin.String())
	case time.Since(d.begun) > moveWithin:
		r.stay(ctx, d, "its blocks were not sent within "+moveWithin.String())
	default:
		if !answered {
			ctx.Request(d.to, d.command)
		}
		supervise.After(ctx, repeatEvery, msg)
		return
	}
	r.advance(ctx)
}

func (r *replica) onOffered(ctx actor.Context, msg *messages.OfferSequenceResult) {
	d := r.departure(msg.GetRequestId(), msg.GetAttempt())
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
		r.stay(ctx, d, msg.GetRefused().GetDetail())
	default:
		d.ticket, d.todo = accepted.GetTicket(), slices.Clone(accepted.GetMissing())
		d.report.ReusedBlocks = uint32(d.full - len(d.todo))
		r.round(ctx, d)
	}
	r.advance(ctx)
}

// round sends the full blocks that are missing while the sequence goes on, or pauses it when no more than one step's worth is left.
func (r *replica) round(ctx actor.Context, d *departure) {
	p, _ := r.batch.Progress(d.id)
	d.grow(p)
	if len(d.todo) > r.stepBlocks(p) {
		d.stage = copying
		r.send(ctx, d, p)
		return
	}
	r.batch.Hold(d.id)
	d.stage = pausing
	r.paused(ctx, d)
}

// grow takes the blocks that became full into account.
func (d *departure) grow(p batch.Progress) {
	for ; d.full < len(p.Hashes); d.full++ {
		d.todo = append(d.todo, uint32(d.full))
	}
}

// stepBlocks is how many blocks one step can fill.
func (r *replica) stepBlocks(p batch.Progress) int {
	if p.Left <= 1 {
		return 1
	}
	return int(r.Spec.GetStepTokens()/r.Spec.GetBlockTokens()) + 1
}

// paused sends what is left, once no step computes the sequence any more.
func (r *replica) paused(ctx actor.Context, d *departure) {
	if r.inFlight(d.id) {
		return
	}
	d.paused = time.Now()
	p, _ := r.batch.Progress(d.id)
	d.grow(p)
	if p.Tokens%int(r.Spec.GetBlockTokens()) > 0 {
		d.todo = append(d.todo, uint32(len(p.Hashes)))
	}
	d.report.Blocks = uint32((p.Tokens + int(r.Spec.GetBlockTokens()) - 1) / int(r.Spec.GetBlockTokens()))
	d.stage = finishing
	if len(d.todo) > 0 {
		r.send(ctx, d, p)
		return
	}
	r.handOver(ctx, d)
}

// send has blocks read and sent. They are pinned until that has ended, whatever becomes of the sequence.
func (r *replica) send(ctx actor.Context, d *departure, p batch.Progress) {
	indices, blocks, bulk, ticket, table := d.todo, r.blocks, r.Bulk, d.ticket, p.Blocks
	size := blocks.BlockBytes()
	if last := uint64(indices[len(indices)-1]); (last+1)*uint64(size) > ticket.GetBytes() {
		r.stay(ctx, d, "it grew faster than its blocks were sent")
		return
	}
	note := sent{incarnation: r.incarnation, id: d.id, attempt: d.attempt}
	for _, i := range indices {
		note.pinned = append(note.pinned, table[i])
	}
	r.pool.Retain(note.pinned)
	d.todo = nil
	d.report.Bytes += uint64(len(indices) * size)
	var life context.Context
	life, d.end = context.WithCancel(r.life)
	supervise.Job(ctx, life, func(life context.Context) (struct{}, error) {
		return struct{}{}, bulk.Send(life, ticket, indices, func(index uint32, into []byte) (int, error) {
			return size, blocks.Read(life, table[index], into[:size])
		})
	}, func(_ struct{}, err error) any {
		note.err = err
		return &note
	})
}

func (r *replica) onSent(ctx actor.Context, msg *sent) {
	if msg.incarnation != r.incarnation {
		return
	}
	r.pool.Release(msg.pinned)
	d := r.departure(msg.id, msg.attempt)
	switch {
	case d == nil:
	case msg.err != nil:
		r.stay(ctx, d, "data plane: "+msg.err.Error())
	case d.stage == copying:
		r.round(ctx, d)
	default:
		r.handOver(ctx, d)
	}
	r.advance(ctx)
}

// handOver tells the target to go on. From here on the sequence may run there.
func (r *replica) handOver(ctx actor.Context, d *departure) {
	p, _ := r.batch.Progress(d.id)
	_, output, _ := r.batch.Sequence(d.id)
	d.stage = resuming
	r.tell(ctx, d, &messages.ResumeSequence{
		RequestId: d.id, Attempt: d.attempt, Output: output, Hashes: bytesOf(p.Hashes), Tokens: uint32(p.Tokens),
		Logprobs: slices.Clip(r.calls[d.id].logprobs),
	})
}

// onResumed: it runs there. This replica forgets it, and its session looks there.
func (r *replica) onResumed(ctx actor.Context, msg *messages.ResumeSequenceResult) {
	d := r.departure(msg.GetRequestId(), msg.GetAttempt())
	if d == nil || d.stage != resuming {
		return
	}
	if refused := msg.GetRefused(); refused != nil {
		r.stay(ctx, d, refused.GetDetail())
		r.advance(ctx)
		return
	}
	d.report.Moved, d.report.PauseSeconds = true, time.Since(d.paused).Seconds()
	ctx.Request(r.calls[d.id].session, &messages.SequenceMoved{
		RequestId: d.id, Replica: d.order.command.GetTarget(), Actor: refOf(d.to), Incarnation: msg.GetIncarnation(), Node: msg.GetNode(),
		From: r.Spec.GetName(), Cause: d.order.command.GetCause(), Report: proto.CloneOf(d.report),
	})
	r.batch.Drop(d.id)
	delete(r.calls, d.id)
	r.totals.migratedOut++
	r.close(ctx, d)
	r.changed(ctx)
	r.advance(ctx)
}

// stay ends a departure: the sequence, where it still exists, goes on here.
func (r *replica) stay(ctx actor.Context, d *departure, why string) {
	d.report.Detail = why
	r.batch.Resume(d.id)
	ctx.Send(d.to, &messages.AbandonSequence{RequestId: d.id, Attempt: d.attempt})
	r.close(ctx, d)
}

// keep ends the departure, if there is one, of a sequence that can not be moved any more.
func (r *replica) keep(ctx actor.Context, id, why string) {
	if d := r.departures[id]; d != nil {
		r.stay(ctx, d, why)
	}
}

// close ends a departure and lets the next one begin.
func (r *replica) close(ctx actor.Context, d *departure) {
	d.end()
	d.report.Seconds = time.Since(d.begun).Seconds()
	r.Log.Info().Str("request", d.id).Str("target", d.order.command.GetTarget()).Bool("moved", d.report.GetMoved()).
		Str("why", d.report.GetDetail()).Float64("pause_seconds", d.report.GetPauseSeconds()).Msg("sequence move ended")
	delete(r.departures, d.id)
	d.order.leaving--
	d.order.report(d.report)
	r.unwatch(ctx, d.to)
	r.depart(ctx)
}

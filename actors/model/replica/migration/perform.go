package migration

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/migration/transfer"
	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/migrate"
	"troupe/messages"
)

// perform carries out the effects of the source or the target, in order.
func (m *Migrations) perform(ctx actor.Context, effects []migrate.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case migrate.Watch:
			ctx.Watch(pidTo(e.Peer))
		case migrate.Unwatch:
			if !m.source.Uses(e.Peer) && !m.target.Uses(e.Peer) {
				ctx.Unwatch(pidTo(e.Peer))
			}
		case migrate.DropSequence:
			m.Machine.Remove(e.ID)
			delete(m.Sequences, e.ID)
			m.host.Moved(ctx, e.ID)
		case migrate.Ignored:
			m.Log.Debug().Str("request", e.ID).Uint64("attempt", e.Attempt).Str("state", e.State).
				Stringer("event", e.Event).Str("why", e.Why).Msg("event ignored by migration")
		default:
			if !m.performSource(ctx, effect) && !m.performTarget(ctx, effect) {
				panic(fmt.Sprintf("replica: unknown effect %T", effect))
			}
		}
	}
}

func (m *Migrations) performSource(ctx actor.Context, effect migrate.Effect) bool {
	switch e := effect.(type) {
	case migrate.SendOffer:
		m.sendToTarget(ctx, e.Key, e.To, m.offerMessage(e))
	case migrate.SendResume:
		m.sendToTarget(ctx, e.Key, e.To, m.resumeMessage(e))
	case migrate.Repeat:
		ctx.Request(pidTo(e.To), m.leaving[e.Key].command)
	case migrate.SendAbandon:
		ctx.Send(pidTo(e.To), &messages.AbandonSequence{RequestId: e.ID, Attempt: e.Attempt})
	case migrate.SetTimer:
		supervise.After(ctx, e.After, m.Note(resendTick{e.Key}))
	case migrate.HoldSequence:
		m.Machine.Batch().Hold(e.ID)
	case migrate.ResumeSequence:
		if !m.host.Restoring(e.ID) { // otherwise it stays held for its blocks
			m.Machine.Batch().Resume(e.ID)
		}
	case migrate.RetainBlocks:
		m.Machine.Pool().Retain(e.Blocks)
	case migrate.ReleaseBlocks:
		m.Machine.Pool().Release(e.Blocks)
	case migrate.SendBlocks:
		m.sendBlocks(ctx, e)
	case migrate.CancelSend:
		ctx.Send(m.transfers, &transfer.CancelSend{Command: m.transferCommand(e.Key)})
	case migrate.Redirect:
		m.redirect(ctx, e)
	case migrate.End:
		delete(m.leaving, e.Key)
		m.Log.Info().Str("request", e.ID).Str("target", e.Target).Bool("moved", e.Report.Moved).
			Str("why", e.Report.Detail).Float64("pause_seconds", e.Report.Pause.Seconds()).
			Msg("sequence migration ended")
	case migrate.AnswerCommand:
		ctx.Send(pidTo(e.To), commandResult(e))
	case migrate.RefuseCommand:
		ctx.Send(pidTo(e.To), &messages.MigrateSequencesResult{RequestId: e.RequestID, Refused: refusedTo(e.Refusal)})
	case migrate.StartNext:
		m.perform(ctx, m.source.Start(m.describeAll(m.source.Waiting()),
			supervise.Now(ctx)))
	default:
		return false
	}
	return true
}

func (m *Migrations) performTarget(ctx actor.Context, effect migrate.Effect) bool {
	switch e := effect.(type) {
	case migrate.KeepOffer:
		m.arriving[e.Key] = &arriving{offer: ctx.Message().(*messages.OfferSequence)}
	case migrate.KeepResume:
		m.arriving[e.Key].resume = ctx.Message().(*messages.ResumeSequence)
	case migrate.Forget:
		delete(m.arriving, e.Key)
	case migrate.Reserve:
		m.reserve(ctx, e.Key)
	case migrate.Unreserve:
		m.Machine.Batch().Abandon(m.arriving[e.Key].reservation)
	case migrate.ReleaseAdapter:
		if m.Machine.Batch() != nil {
			m.Machine.Batch().ReleaseAdapter(m.arrivingRequest(ctx, e.Key))
		}
	case migrate.OpenSink:
		m.openSink(ctx, e.Key)
	case migrate.CloseSink:
		m.closeSink(ctx, e)
	case migrate.AskSink:
		ctx.Send(m.transfers, &transfer.AskSink{Command: m.transferCommand(e.Key),
			Heard: func(at time.Time) any { return m.Note(sinkHeard{e.Key, at}) }})
	case migrate.SetExpiry:
		supervise.After(ctx, e.After, m.Note(expireTick{e.Key}))
	case migrate.AnswerOffer:
		ctx.Request(pidTo(e.To), &messages.OfferSequenceResult{RequestId: e.ID, Attempt: e.Attempt,
			Outcome: &messages.OfferSequenceResult_Accepted{Accepted: &messages.SequenceOffered{
				Ticket: m.arriving[e.Key].ticket, Missing: e.Missing,
			}}})
	case migrate.RefuseOffer:
		ctx.Request(pidTo(e.To), &messages.OfferSequenceResult{RequestId: e.ID, Attempt: e.Attempt,
			Outcome: &messages.OfferSequenceResult_Refused{Refused: refusedTo(e.Refusal)}})
	case migrate.Adopt:
		m.adopt(ctx, e.Key)
	case migrate.AnswerResume:
		m.answerResume(ctx, e)
	case migrate.CancelMigration:
		m.Cancel(ctx, e.ID, e.Why)
	case migrate.AnswerOffers:
		m.AnswerOffers(ctx)
	default:
		return false
	}
	return true
}

// sendToTarget sends a message to the target and keeps it for repetition until it is answered.
func (m *Migrations) sendToTarget(ctx actor.Context, k migrate.Key, to migrate.Actor, command proto.Message) {
	l := m.leaving[k]
	if l == nil {
		l = &leaving{}
		m.leaving[k] = l
	}
	l.command = command
	ctx.Request(pidTo(to), command)
}

func (m *Migrations) transferCommand(k migrate.Key) transfer.Command {
	return transfer.Command{Key: k, Incarnation: m.life}
}

func (m *Migrations) sendBlocks(ctx actor.Context, e migrate.SendBlocks) {
	ctx.Send(m.transfers, &transfer.SendBlocks{
		Command: m.transferCommand(e.Key), Ticket: m.leaving[e.Key].ticket, Indices: e.Indices,
		Blocks: e.Blocks, Done: func(err error) any { return m.Note(sendDone{e.Key, err}) },
	})
}

// redirect notifies a session that its sequence runs at the target.
func (m *Migrations) redirect(ctx actor.Context, e migrate.Redirect) {
	ctx.Request(m.Sequences[e.ID].Session, &messages.SequenceMoved{
		RequestId: e.ID, Replica: e.Target, Actor: &messages.ActorRef{Address: e.To.Address, Id: e.To.ID},
		Incarnation: e.Incarnation, Node: e.Node, From: m.Spec.GetName(), Cause: e.Cause, Report: reportTo(e.Report),
	})
	m.Machine.CountMoved()
	m.host.Perform(ctx, m.Machine.ReportSoon())
}

// arrivingRequest returns the scheduler's request for an arriving sequence.
func (m *Migrations) arrivingRequest(ctx actor.Context, k migrate.Key) batch.Request {
	a := m.arriving[k]
	return m.host.Request(ctx, k.ID, a.offer.GetSequence(), a.resume.GetOutput())
}

// reserve reserves the blocks of an offer and pins its adapter.
func (m *Migrations) reserve(ctx actor.Context, k migrate.Key) {
	a, target := m.arriving[k], m.target
	if refused := m.checkOffer(a.offer); refused != nil {
		m.perform(ctx, target.NotReserved(k, refusalOf(refused), false, supervise.Now(ctx)))
		return
	}
	if m.host.AddAdapter(ctx, a.offer.GetSequence().GetAdapterSpec()); a.offer.GetTokens() == 0 {
		m.perform(ctx, target.Reserved(k, 0, supervise.Now(ctx)))
		return
	}
	reservation, why := m.Machine.Batch().Reserve(m.arrivingRequest(ctx, k), wire.Hashes(a.offer.GetHashes()),
		int(a.offer.GetTokens()))
	if why != nil {
		m.host.Perform(ctx, m.Machine.SyncPins(m.Postponed()))
		m.perform(ctx, target.NotReserved(k, refusalOf(wire.RefusedByBatch(why)),
			why.Reason == batch.AdapterLoading, supervise.Now(ctx)))
		return
	}
	a.reservation = reservation
	m.perform(ctx, target.Reserved(k, reservation.Resident, supervise.Now(ctx)))
}

// checkOffer returns a refusal if the files or the adapter of an offered sequence differ from those
// here.
func (m *Migrations) checkOffer(msg *messages.OfferSequence) *messages.Refused {
	if other := wire.Refused(m.Machine.CheckRevision(msg.GetRevisionDigest())); other != nil {
		return other
	}
	return wire.Refused(m.Machine.CheckAdapter(wire.Adapter(msg.GetSequence())))
}

func (m *Migrations) openSink(ctx actor.Context, k migrate.Key) {
	reservation := m.arriving[k].reservation
	ctx.Send(m.transfers, &transfer.OpenSink{
		Command: m.transferCommand(k), Blocks: reservation.Blocks, Resident: reservation.Resident,
		Opened: func(ticket *messages.BulkTicket, err error) any { return m.Note(sinkOpened{k, ticket, err}) },
	})
}

func (m *Migrations) closeSink(ctx actor.Context, e migrate.CloseSink) {
	ctx.Send(m.transfers, &transfer.CloseSink{
		Command: m.transferCommand(e.Key), Blocks: e.Blocks,
		Closed: func(complete bool) any { return m.Note(sinkClosed{e.Key, complete}) },
	})
}

// adopt adds a sequence that has arrived to the batch.
func (m *Migrations) adopt(ctx actor.Context, k migrate.Key) {
	a, request := m.arriving[k], m.arrivingRequest(ctx, k)
	var why *batch.Refusal
	if a.reservation == nil {
		_, why = m.Machine.Batch().Submit(request)
	} else {
		why = m.Machine.Batch().Adopt(a.reservation, request, int(a.resume.GetTokens()))
	}
	if why != nil {
		m.perform(ctx, m.target.NotAdopted(k, refusalOf(wire.RefusedByBatch(why)), supervise.Now(ctx)))
		return
	}
	c := &wire.Sequence{Session: pidOf(a.offer.GetSession()), Spec: a.offer.GetSequence(),
		Logprobs: a.resume.GetLogprobs()}
	if n := len(c.Logprobs); n > 0 {
		c.Base = len(a.resume.GetOutput()) - n
	}
	m.Sequences[k.ID] = c
	m.Machine.Arrived(k.ID, c.Spec.GetAdapterSpec().Key(), c.Base)
	m.perform(ctx, m.target.Adopted(k, supervise.Now(ctx)))
}

func (m *Migrations) answerResume(ctx actor.Context, e migrate.AnswerResume) {
	result := &messages.ResumeSequenceResult{
		RequestId: e.ID, Attempt: e.Attempt, Incarnation: m.Incarnation, Node: m.Spec.GetNode(),
	}
	if e.Refusal != nil {
		result.Refused = refusedTo(*e.Refusal)
	}
	ctx.Send(pidTo(e.To), result)
}

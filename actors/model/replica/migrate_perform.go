package replica

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/transfer"
	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/migrate"
	"troupe/messages"
)

// performMigration carries out the effects of the source or the target, in order.
func (r *replica) performMigration(ctx actor.Context, effects []migrate.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case migrate.Watch:
			ctx.Watch(pidTo(e.Peer))
		case migrate.Unwatch:
			if !r.migrations.source.Uses(e.Peer) && !r.migrations.target.Uses(e.Peer) {
				ctx.Unwatch(pidTo(e.Peer))
			}
		case migrate.DropSequence:
			r.batch.Drop(e.ID)
			delete(r.sequences, e.ID)
		case migrate.Ignored:
			r.Log.Debug().Str("request", e.ID).Uint64("attempt", e.Attempt).Str("state", e.State).
				Stringer("event", e.Event).Str("why", e.Why).Msg("event ignored by migration")
		default:
			if !r.performSource(ctx, effect) && !r.performTarget(ctx, effect) {
				panic(fmt.Sprintf("replica: unknown effect %T", effect))
			}
		}
	}
}

func (r *replica) performSource(ctx actor.Context, effect migrate.Effect) bool {
	switch e := effect.(type) {
	case migrate.SendOffer:
		r.sendToTarget(ctx, e.Key, e.To, r.offerMessage(e))
	case migrate.SendResume:
		r.sendToTarget(ctx, e.Key, e.To, r.resumeMessage(e))
	case migrate.Repeat:
		ctx.Request(pidTo(e.To), r.migrations.leaving[e.Key].command)
	case migrate.SendAbandon:
		ctx.Send(pidTo(e.To), &messages.AbandonSequence{RequestId: e.ID, Attempt: e.Attempt})
	case migrate.SetTimer:
		supervise.After(ctx, e.After, &resendTick{r.incarnation, e.Key})
	case migrate.HoldSequence:
		r.batch.Hold(e.ID)
	case migrate.ResumeSequence:
		r.batch.Resume(e.ID)
	case migrate.RetainBlocks:
		r.pool.Retain(e.Blocks)
	case migrate.ReleaseBlocks:
		r.pool.Release(e.Blocks)
	case migrate.SendBlocks:
		r.sendBlocks(ctx, e)
	case migrate.CancelSend:
		ctx.Send(r.migrations.transfers, &transfer.CancelSend{Command: r.transferCommand(e.Key)})
	case migrate.Redirect:
		r.redirect(ctx, e)
	case migrate.End:
		delete(r.migrations.leaving, e.Key)
		r.Log.Info().Str("request", e.ID).Str("target", e.Target).Bool("moved", e.Report.Moved).
			Str("why", e.Report.Detail).Float64("pause_seconds", e.Report.Pause.Seconds()).
			Msg("sequence migration ended")
	case migrate.AnswerCommand:
		ctx.Send(pidTo(e.To), commandResult(e))
	case migrate.RefuseCommand:
		ctx.Send(pidTo(e.To), &messages.MigrateSequencesResult{RequestId: e.RequestID, Refused: refusedTo(e.Refusal)})
	case migrate.StartNext:
		r.performMigration(ctx, r.migrations.source.Start(r.describeAll(r.migrations.source.Waiting()),
			supervise.Now(ctx)))
	default:
		return false
	}
	return true
}

func (r *replica) performTarget(ctx actor.Context, effect migrate.Effect) bool {
	switch e := effect.(type) {
	case migrate.KeepOffer:
		r.migrations.arriving[e.Key] = &arriving{offer: ctx.Message().(*messages.OfferSequence)}
	case migrate.KeepResume:
		r.migrations.arriving[e.Key].resume = ctx.Message().(*messages.ResumeSequence)
	case migrate.Forget:
		delete(r.migrations.arriving, e.Key)
	case migrate.Reserve:
		r.reserve(ctx, e.Key)
	case migrate.Unreserve:
		r.batch.Abandon(r.migrations.arriving[e.Key].reservation)
	case migrate.ReleaseAdapter:
		if r.batch != nil {
			r.batch.ReleaseAdapter(r.arrivingRequest(e.Key))
		}
	case migrate.OpenSink:
		r.openSink(ctx, e.Key)
	case migrate.CloseSink:
		r.closeSink(ctx, e)
	case migrate.AskSink:
		incarnation := r.incarnation
		ctx.Send(r.migrations.transfers, &transfer.AskSink{Command: r.transferCommand(e.Key),
			Heard: func(at time.Time) any { return &sinkHeard{incarnation, e.Key, at} }})
	case migrate.SetExpiry:
		supervise.After(ctx, e.After, &expireIncoming{r.incarnation, e.Key})
	case migrate.AnswerOffer:
		ctx.Request(pidTo(e.To), &messages.OfferSequenceResult{RequestId: e.ID, Attempt: e.Attempt,
			Outcome: &messages.OfferSequenceResult_Accepted{Accepted: &messages.SequenceOffered{
				Ticket: r.migrations.arriving[e.Key].ticket, Missing: e.Missing,
			}}})
	case migrate.RefuseOffer:
		ctx.Request(pidTo(e.To), &messages.OfferSequenceResult{RequestId: e.ID, Attempt: e.Attempt,
			Outcome: &messages.OfferSequenceResult_Refused{Refused: refusedTo(e.Refusal)}})
	case migrate.Adopt:
		r.adopt(ctx, e.Key)
	case migrate.AnswerResume:
		r.answerResume(ctx, e)
	case migrate.CancelMigration:
		r.abortIfMigrating(ctx, e.ID, e.Why)
	case migrate.AnswerOffers:
		r.answerOffers(ctx)
	default:
		return false
	}
	return true
}

// sendToTarget sends a message that is repeated until it is answered.
func (r *replica) sendToTarget(ctx actor.Context, k migrate.Key, to migrate.Actor, command proto.Message) {
	l := r.migrations.leaving[k]
	if l == nil {
		l = &leaving{}
		r.migrations.leaving[k] = l
	}
	l.command = command
	ctx.Request(pidTo(to), command)
}

func (r *replica) transferCommand(k migrate.Key) transfer.Command {
	return transfer.Command{Key: k, Incarnation: r.migrations.incarnation}
}

func (r *replica) sendBlocks(ctx actor.Context, e migrate.SendBlocks) {
	incarnation := r.incarnation
	ctx.Send(r.migrations.transfers, &transfer.SendBlocks{
		Command: r.transferCommand(e.Key), Ticket: r.migrations.leaving[e.Key].ticket, Indices: e.Indices,
		Blocks: e.Blocks, Done: func(err error) any { return &sendDone{incarnation, e.Key, err} },
	})
}

// redirect tells a session that its sequence runs at the target.
func (r *replica) redirect(ctx actor.Context, e migrate.Redirect) {
	ctx.Request(r.sequences[e.ID].session, &messages.SequenceMoved{
		RequestId: e.ID, Replica: e.Target, Actor: &messages.ActorRef{Address: e.To.Address, Id: e.To.ID},
		Incarnation: e.Incarnation, Node: e.Node, From: r.Spec.GetName(), Cause: e.Cause, Report: reportTo(e.Report),
	})
	r.totals.migratedOut++
	r.scheduleReport(ctx)
}

// arrivingRequest returns the request for the scheduler.
func (r *replica) arrivingRequest(k migrate.Key) batch.Request {
	a := r.migrations.arriving[k]
	return r.batchRequest(k.ID, a.offer.GetSequence(), a.resume.GetOutput())
}

// reserve reserves the blocks of an offer and pins its adapter.
func (r *replica) reserve(ctx actor.Context, k migrate.Key) {
	a, target := r.migrations.arriving[k], r.migrations.target
	if refused := r.checkOffer(a.offer); refused != nil {
		r.performMigration(ctx, target.NotReserved(k, refusalOf(refused), false, supervise.Now(ctx)))
		return
	}
	if r.registerAdapter(ctx, a.offer.GetSequence().GetAdapterSpec()); a.offer.GetTokens() == 0 {
		r.performMigration(ctx, target.Reserved(k, 0, supervise.Now(ctx)))
		return
	}
	reservation, why := r.batch.Reserve(r.arrivingRequest(k), hashesOf(a.offer.GetHashes()), int(a.offer.GetTokens()))
	if why != nil {
		r.syncPins(ctx)
		r.performMigration(ctx, target.NotReserved(k, refusalOf(refusedByBatch(why)),
			why.Reason == batch.AdapterLoading, supervise.Now(ctx)))
		return
	}
	a.reservation = reservation
	r.performMigration(ctx, target.Reserved(k, reservation.Resident, supervise.Now(ctx)))
}

// checkOffer returns a refusal if the files or the adapter of an offered sequence differ from those
// here.
func (r *replica) checkOffer(msg *messages.OfferSequence) *messages.Refused {
	if other := r.checkRevision(msg.GetRevisionDigest()); other != nil {
		return other
	}
	return r.checkAdapter(msg.GetSequence())
}

func (r *replica) openSink(ctx actor.Context, k migrate.Key) {
	incarnation, reservation := r.incarnation, r.migrations.arriving[k].reservation
	ctx.Send(r.migrations.transfers, &transfer.OpenSink{
		Command: r.transferCommand(k), Blocks: reservation.Blocks, Resident: reservation.Resident,
		Opened: func(ticket *messages.BulkTicket, err error) any { return &sinkOpened{incarnation, k, ticket, err} },
	})
}

func (r *replica) closeSink(ctx actor.Context, e migrate.CloseSink) {
	incarnation := r.incarnation
	ctx.Send(r.migrations.transfers, &transfer.CloseSink{
		Command: r.transferCommand(e.Key), Blocks: e.Blocks,
		Closed: func(complete bool) any { return &sinkClosed{incarnation, e.Key, complete} },
	})
}

// adopt adds a sequence that has arrived to the batch.
func (r *replica) adopt(ctx actor.Context, k migrate.Key) {
	a, request := r.migrations.arriving[k], r.arrivingRequest(k)
	var why *batch.Refusal
	if a.reservation == nil {
		_, why = r.batch.Submit(request)
	} else {
		why = r.batch.Adopt(a.reservation, request, int(a.resume.GetTokens()))
	}
	if why != nil {
		r.performMigration(ctx, r.migrations.target.NotAdopted(k, refusalOf(refusedByBatch(why)), supervise.Now(ctx)))
		return
	}
	logprobs := a.resume.GetLogprobs()
	c := &activeSequence{session: pidOf(a.offer.GetSession()), spec: a.offer.GetSequence(), logprobs: logprobs}
	if n := len(logprobs); n > 0 {
		c.outputBase = len(a.resume.GetOutput()) - n
	}
	r.sequences[k.ID] = c
	r.totals.migratedIn++
	r.performMigration(ctx, r.migrations.target.Adopted(k, supervise.Now(ctx)))
}

func (r *replica) answerResume(ctx actor.Context, e migrate.AnswerResume) {
	result := &messages.ResumeSequenceResult{
		RequestId: e.ID, Attempt: e.Attempt, Incarnation: r.incarnation, Node: r.Spec.GetNode(),
	}
	if e.Refusal != nil {
		result.Refused = refusedTo(*e.Refusal)
	}
	ctx.Send(pidTo(e.To), result)
}

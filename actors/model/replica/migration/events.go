package migration

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/messages"
)

// BetweenSteps does the work that waited for the end of a step.
func (m *Migrations) BetweenSteps(ctx actor.Context) {
	if ids := m.source.Pausing(); ids != nil {
		m.perform(ctx, m.source.StepEnded(m.describeAll(ids), supervise.Now(ctx)))
	}
	if ids := m.source.Waiting(); ids != nil {
		m.perform(ctx, m.source.Start(m.describeAll(ids), supervise.Now(ctx)))
	}
	m.AnswerOffers(ctx)
}

// AnswerOffers answers the waiting offers, unless a step is in flight.
func (m *Migrations) AnswerOffers(ctx actor.Context) {
	ids := m.target.Postponed()
	if ids == nil || m.Machine.Stepping() {
		return
	}
	here := slices.DeleteFunc(ids, func(id string) bool { return !m.Machine.Has(id) })
	m.perform(ctx, m.target.StepEnded(m.own(), here, supervise.Now(ctx)))
}

func (m *Migrations) OnMigrate(ctx actor.Context, msg *messages.MigrateSequences) {
	if !m.Can.Has(backend.KVMigration) {
		m.recompute(ctx, msg)
		return
	}
	all := slices.Collect(maps.Keys(m.Sequences)) // the machine sorts them
	m.perform(ctx, m.source.Command(commandOf(msg, ctx.Sender()), all))
	m.host.Advance(ctx)
}

func (m *Migrations) OnOffer(ctx actor.Context, msg *messages.OfferSequence) {
	m.perform(ctx, m.target.Offer(offeredOf(msg, ctx.Sender()), m.own(), m.Machine.Has(msg.GetRequestId()),
		!m.Machine.Stepping(), supervise.Now(ctx)))
}

func (m *Migrations) OnOffered(ctx actor.Context, msg *messages.OfferSequenceResult) {
	k, accepted := keyOf(msg), msg.GetAccepted()
	if accepted == nil {
		m.perform(ctx, m.source.OfferRefused(k, msg.GetRefused().GetDetail(), supervise.Now(ctx)))
	} else {
		if l := m.leaving[k]; l != nil && l.ticket == nil {
			l.ticket = accepted.GetTicket()
		}
		m.perform(ctx, m.source.Offered(k, actorOf(ctx.Sender()), accepted.GetMissing(),
			m.capacityOf(accepted.GetTicket()), m.describe(k.ID), supervise.Now(ctx)))
	}
	m.host.Advance(ctx)
}

// OnResume continues a sequence here if all of its blocks have arrived.
func (m *Migrations) OnResume(ctx actor.Context, msg *messages.ResumeSequence) {
	m.perform(ctx, m.target.Resume(keyOf(msg), actorOf(ctx.Sender()), int(msg.GetTokens()), m.own(),
		supervise.Now(ctx)))
	m.host.Perform(ctx, m.Machine.ReportSoon())
	m.host.Advance(ctx)
}

func (m *Migrations) OnResumed(ctx actor.Context, msg *messages.ResumeSequenceResult) {
	k, source, now := keyOf(msg), m.source, supervise.Now(ctx)
	if refused := msg.GetRefused(); refused != nil {
		m.perform(ctx, source.ResumeFailed(k, refused.GetDetail(), now))
	} else {
		m.perform(ctx, source.Resumed(k, msg.GetIncarnation(), msg.GetNode(), now))
	}
	m.host.Advance(ctx)
}

// OnAbandon releases a sequence that the source has taken back, or that has ended there.
func (m *Migrations) OnAbandon(ctx actor.Context, msg *messages.AbandonSequence) {
	k := keyOf(msg)
	if m.arriving[k] != nil {
		m.host.Perform(ctx, m.Machine.ReportSoon())
	}
	m.perform(ctx, m.target.Abandoned(k, m.Machine.Has(k.ID), supervise.Now(ctx)))
	m.host.Advance(ctx)
}

// Cancel aborts the migration of a sequence, if there is one.
func (m *Migrations) Cancel(ctx actor.Context, id, why string) {
	if m.source.Migrating(id) {
		m.perform(ctx, m.source.Cancel(id, why, supervise.Now(ctx)))
	}
}

// Claim records that the session of an incoming sequence has contacted this replica.
func (m *Migrations) Claim(ctx actor.Context, id string) {
	m.target.Claim(id, supervise.Now(ctx))
}

// OnPeerLost handles the loss of another replica: sequences that were migrating to it continue
// here, and reservations for sequences from it are released.
func (m *Migrations) OnPeerLost(ctx actor.Context, peer *actor.PID) {
	now := supervise.Now(ctx)
	m.perform(ctx, m.source.Lost(actorOf(peer), now))
	m.perform(ctx, m.target.Lost(actorOf(peer), now))
	m.host.Advance(ctx)
}

// Close ends the migrations of this incarnation. The transfers actor ends its reads and writes of
// blocks before the next incarnation starts.
func (m *Migrations) Close(ctx actor.Context) {
	m.perform(ctx, m.source.Stop(supervise.Now(ctx)))
	m.perform(ctx, m.target.Stop(supervise.Now(ctx)))
	if m.blocks != nil {
		_ = m.blocks.Close() // the content of the blocks belongs to the lease
	}
	m.blocks = nil
	clear(m.leaving)
	clear(m.arriving)
}

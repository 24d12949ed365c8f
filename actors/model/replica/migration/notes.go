package migration

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
)

// OnNote handles a note of this incarnation, and continues with the next step.
func (m *Migrations) OnNote(ctx actor.Context, note any) {
	now := supervise.Now(ctx)
	switch n := note.(type) {
	case resendTick:
		m.perform(ctx, m.source.Timer(n.key, now))
	case expireTick:
		m.perform(ctx, m.target.Expire(n.key, now))
	case transfersReady:
		m.onTransfersReady(ctx, n)
	case sendDone:
		m.onSendDone(ctx, n)
	case sinkOpened:
		m.onSinkOpened(ctx, n)
	case sinkHeard:
		m.perform(ctx, m.target.Heard(n.key, n.at, now))
	case sinkClosed:
		m.perform(ctx, m.target.Closed(n.key, n.complete, m.own(), now))
		m.host.Perform(ctx, m.Machine.ReportSoon())
	default:
		panic(fmt.Sprintf("migration: unknown note %T", note))
	}
	m.host.Advance(ctx)
}

// onTransfersReady handles the start of the transfers actor, or its restart after a crash that
// ended all transfers.
func (m *Migrations) onTransfersReady(ctx actor.Context, n transfersReady) {
	if n.incarnation != m.life {
		m.life = n.incarnation
		m.perform(ctx, m.source.PlaneLost(supervise.Now(ctx)))
		m.perform(ctx, m.target.PlaneLost(supervise.Now(ctx)))
	}
}

func (m *Migrations) onSendDone(ctx actor.Context, n sendDone) {
	if n.err != nil {
		m.perform(ctx, m.source.SendFailed(n.key, n.err.Error(), supervise.Now(ctx)))
		return
	}
	m.perform(ctx, m.source.Sent(n.key, m.describe(n.key.ID), supervise.Now(ctx)))
}

func (m *Migrations) onSinkOpened(ctx actor.Context, n sinkOpened) {
	if n.err != nil {
		m.perform(ctx, m.target.OpenFailed(n.key, n.err.Error(), supervise.Now(ctx)))
		return
	}
	if a := m.arriving[n.key]; a != nil {
		a.ticket = n.ticket
	}
	m.perform(ctx, m.target.Opened(n.key, supervise.Now(ctx)))
}

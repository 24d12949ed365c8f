package simulate

import (
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/deployment"
	"troupe/core/migrate"
	"troupe/core/router"
	"troupe/core/session"
)

// perform carries out the effects of the source or the target, in order.
func (m *migration) perform(effects []migrate.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case migrate.Watch:
			m.watch(e.Peer)
		case migrate.DropSequence:
			if m.machine.Remove(e.ID); m.tiering != nil {
				m.tiering.performRestore(m.tiering.restores.Dropped(e.ID))
			}
		default:
			m.performSource(effect)
			m.performTarget(effect)
		}
	}
}

func (m *migration) performSource(effect migrate.Effect) {
	now := m.sim.key.at
	switch e := effect.(type) {
	case migrate.SendOffer:
		content := m.offerOf(e)
		m.command(e.Key, e.To, func(to *migration, now time.Time) { to.offerArrived(content, now) })
	case migrate.SendResume:
		_, output, _ := m.machine.Batch().Sequence(e.ID)
		content := resume{slices.Clone(output), e.Tokens}
		m.command(e.Key, e.To, func(to *migration, now time.Time) {
			to.resume = content
			to.perform(to.target.Resume(e.Key, m.migrant(), content.tokens, to.own(), now))
			to.replica.perform(to.machine.ReportSoon(), now)
		})
	case migrate.Repeat:
		m.send(e.To, m.leaving[e.Key].command)
	case migrate.SendAbandon:
		m.send(e.To, func(to *migration, now time.Time) {
			if to.arriving[e.Key] != nil {
				to.replica.perform(to.machine.ReportSoon(), now)
			}
			to.perform(to.target.Abandoned(e.Key, to.machine.Has(e.ID), now))
		})
	case migrate.SetTimer:
		m.after(e.After, func(now time.Time) { m.perform(m.source.Timer(e.Key, now)) })
	case migrate.HoldSequence:
		m.machine.Batch().Hold(e.ID)
	case migrate.ResumeSequence:
		if m.tiering == nil || !m.tiering.restores.Holds(e.ID) { // else it stays held for its blocks
			m.machine.Batch().Resume(e.ID)
		}
	case migrate.RetainBlocks:
		m.machine.Pool().Retain(e.Blocks)
	case migrate.ReleaseBlocks:
		m.machine.Pool().Release(e.Blocks)
	case migrate.SendBlocks:
		m.sendBlocks(e)
	case migrate.CancelSend:
		m.sim.copies.abort(m.leaving[e.Key].sending)
	case migrate.Redirect:
		m.redirect(e)
	case migrate.End:
		delete(m.leaving, e.Key)
		m.model.migrations.add(e.Report)
		m.sim.record.migrate(now, m.replica, e)
	case migrate.AnswerCommand:
		m.migrated(e.RequestID)
	case migrate.RefuseCommand:
		m.migrated(e.RequestID)
	case migrate.StartNext:
		m.perform(m.source.Start(m.describe(m.source.Waiting()), now))
	}
}

// migrated tells the deployment that a command has ended.
func (m *migration) migrated(request string) {
	if !m.cutOff() {
		m.model.post(deployment.Migrated{Replica: m.name, Request: request})
	}
}

func (m *migration) performTarget(effect migrate.Effect) {
	switch e := effect.(type) {
	case migrate.KeepOffer:
		m.arriving[e.Key] = m.offer
	case migrate.KeepResume:
		m.arriving[e.Key].resume = m.resume
	case migrate.Forget:
		delete(m.arriving, e.Key)
	case migrate.Reserve:
		m.reserve(e.Key)
	case migrate.Unreserve:
		m.machine.Batch().Abandon(m.arriving[e.Key].reservation)
	case migrate.ReleaseAdapter:
		m.machine.Batch().ReleaseAdapter(m.request(e.Key))
	case migrate.OpenSink:
		m.post(func(now time.Time) { m.perform(m.target.Opened(e.Key, now)) })
	case migrate.CloseSink:
		m.closeSink(e)
	case migrate.AskSink:
		m.post(func(now time.Time) {
			if a := m.arriving[e.Key]; a != nil {
				m.perform(m.target.Heard(e.Key, a.lastHeard(now), now))
			}
		})
	case migrate.SetExpiry:
		m.after(e.After, func(now time.Time) { m.perform(m.target.Expire(e.Key, now)) })
	case migrate.AnswerOffer:
		room, from := 0, m.migrant()
		if r := m.arriving[e.Key].reservation; r != nil {
			room = len(r.Blocks)
		}
		m.send(e.To, func(to *migration, now time.Time) {
			to.perform(to.source.Offered(e.Key, from, e.Missing, room, to.describe([]string{e.ID})[0], now))
		})
	case migrate.RefuseOffer:
		m.send(e.To, func(to *migration, now time.Time) {
			to.perform(to.source.OfferRefused(e.Key, e.Refusal.Detail, now))
		})
	case migrate.Adopt:
		m.adopt(e.Key)
	case migrate.AnswerResume:
		m.send(e.To, func(to *migration, now time.Time) {
			if e.Refusal != nil {
				to.perform(to.source.ResumeFailed(e.Key, e.Refusal.Detail, now))
				return
			}
			to.perform(to.source.Resumed(e.Key, m.incarnation, m.device.Node, now))
		})
	case migrate.CancelMigration:
		m.cancel(e.ID, e.Why)
	case migrate.AnswerOffers:
		m.answerOffers()
	}
}

// command sends a message to the target and keeps it, since it is repeated until it is answered.
func (m *migration) command(k migrate.Key, to migrate.Actor, command func(to *migration, now time.Time)) {
	if m.leaving[k] == nil {
		m.leaving[k] = &leaving{to: to}
	}
	m.leaving[k].command = command
	m.send(to, command)
}

func (m *migration) offerOf(e migrate.SendOffer) offered {
	q := m.sim.requests[e.ID]
	return offered{migrate.OfferedSequence{Key: e.Key, Source: m.migrant(), Shape: m.shape(), Tokens: e.Tokens,
		Hashes: len(e.Hashes), Longest: min(q.prompt+q.output, m.machine.Context())}, q, slices.Clone(e.Hashes)}
}

func (m *migration) offerArrived(o offered, now time.Time) {
	m.offer = &arriving{offered: o, received: make(map[uint32]bool)}
	m.perform(m.target.Offer(o.OfferedSequence, m.own(), m.machine.Has(o.ID), !m.machine.Stepping(), now))
}

// request returns the request of the scheduler for a sequence that arrives.
func (m *migration) request(k migrate.Key) batch.Request {
	a := m.arriving[k]
	return m.replica.request(a.offered.request, a.output, 0, m.sim.key.at)
}

// reserve reserves the blocks of an offer and pins its adapter.
func (m *migration) reserve(k migrate.Key) {
	a, now := m.arriving[k], m.sim.key.at
	if adapter := a.offered.request.adapter; adapter != "" {
		if why := m.machine.CheckAdapter(adapterOf(adapter)); why != nil {
			m.perform(m.target.NotReserved(k, migrate.Refusal{Detail: why.Detail}, false, now))
			return
		}
		m.replica.perform(m.machine.Want(), now)
	}
	if a.Tokens == 0 {
		m.perform(m.target.Reserved(k, 0, now))
		return
	}
	reservation, why := m.machine.Batch().Reserve(m.request(k), slices.Clone(a.hashes), a.Tokens)
	if why != nil {
		m.replica.perform(m.machine.SyncPins(m.postponed()), now)
		m.perform(m.target.NotReserved(k, migrate.Refusal{Detail: why.Detail}, why.Reason == batch.AdapterLoading, now))
		return
	}
	a.reservation = reservation
	m.perform(m.target.Reserved(k, reservation.Resident, now))
}

// adopt adds a sequence that has arrived to the batch.
func (m *migration) adopt(k migrate.Key) {
	a, now := m.arriving[k], m.sim.key.at
	var why *batch.Refusal
	if a.reservation == nil {
		_, why = m.machine.Batch().Submit(m.request(k))
	} else {
		why = m.machine.Batch().Adopt(a.reservation, m.request(k), a.resume.tokens)
	}
	if why != nil {
		m.perform(m.target.NotAdopted(k, migrate.Refusal{Detail: why.Detail}, now))
		return
	}
	m.machine.Arrived(k.ID, keyOf(a.offered.request.adapter), 0)
	m.perform(m.target.Adopted(k, now))
}

// redirect tells the session of a sequence that it runs at the target.
func (m *migration) redirect(e migrate.Redirect) {
	q, to, now := m.sim.requests[e.ID], m.sim.byAddress(session.Actor(e.To)), m.sim.key.at
	m.machine.CountMoved()
	m.replica.perform(m.machine.ReportSoon(), now)
	switch {
	case to == nil || to.ended:
	case m.cutOff(): // its session hears of neither
		to.severed = append(to.severed, e.ID)
	case q == nil || q.replica != m.replica: // a stray
		to.touch()
		to.perform(to.machine.Cancel(e.ID), now)
	default:
		q.moved(m.replica, to, e, now)
	}
}

// moved makes the session follow its sequence to another replica.
func (q *request) moved(from, to *replica, e migrate.Redirect, now time.Time) {
	q.perform(q.machine.Moved(from.session(), session.Replica{Name: to.name, Actor: to.session(),
		Incarnation: e.Incarnation}, now))
	q.model.sim.router.Moved(q.id, router.Move{Replica: to.name, Node: e.Node, From: from.name, Cause: e.Cause,
		Blocks: e.Report.Blocks, Reused: e.Report.Reused, Bytes: e.Report.Bytes, Pause: e.Report.Pause}, now)
	q.replica = to
	to.touch()
	known, effects := to.machine.Query(q.id)
	to.perform(effects, now)
	q.perform(q.machine.Status(to.session(), known.State != "", known.Output, now))
}

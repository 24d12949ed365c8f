package session

import (
	"slices"
	"time"
)

func (m *Machine) start(e event) {
	m.seen = e.output
	m.setRevision(e.digest)
	if m.seen > 0 {
		m.place(e)
	}
	m.route(e)
}

// route asks the router for a replica, and again after checkInterval, in case the request is lost.
func (m *Machine) route(e event) {
	m.detach()
	m.attempt++
	m.emit(AskRoute{
		Avoid: slices.Clone(m.avoid), Cause: m.cause, Revision: m.outputRevision(), Begun: m.begun || m.seen > 0,
	})
	m.setTimer(e, checkInterval)
}

// delay asks the router after a delay.
func (m *Machine) delay(e event, d time.Duration) {
	m.detach()
	m.attempt++
	m.setTimer(e, max(d, minRetryDelay))
}

func (m *Machine) delayRoute(e event) {
	m.waiting = e.refusal.Detail
	m.place(e)
	m.delay(e, e.refusal.RetryAfter)
}

// keepPlace asks the router again before it gives the place to another request. A router that has
// restarted knows no places.
func (m *Machine) keepPlace(e event) {
	m.waiting = "no replica serves its model yet"
	m.place(e)
	m.attempt++
	d := placeInterval
	if !m.cfg.Deadline.IsZero() {
		d = min(d, m.cfg.Deadline.Sub(e.now))
	}
	m.setTimer(e, d)
}

// submitTo submits the sequence to a routed replica. If the router returned the silent replica
// again, that one is only busy and still has the sequence.
func (m *Machine) submitTo(e event) {
	if m.abandoned.Name != e.to.Name {
		m.answered = e.now
		if m.abandoned != (Replica{}) {
			m.emit(Abandon{Replica: m.abandoned, Instead: e.to.Name})
		}
	}
	m.abandoned, m.waiting = Replica{}, ""
	m.assign(e.to)
	m.place(e)
	m.resubmit(e)
}

// place gives the session its place in the queues, unless it has one.
func (m *Machine) place(e event) {
	if m.placed.IsZero() {
		m.placed = e.now
		m.emit(KeepPlace{e.now})
	}
}

// begin notes that a replica was found. The sequence is not refused for a level that is set later.
func (m *Machine) begin() {
	if !m.begun {
		m.begun = true
		m.emit(KeepBegun{})
	}
}

// assign makes a replica the assigned one. It may have sent tokens before.
func (m *Machine) assign(r Replica) {
	m.replica = r
	m.begin()
	if r.Actor == m.other {
		m.other = Actor{}
	}
}

// submitAgain submits the sequence to a replica that has answered that it lacks it.
func (m *Machine) submitAgain(e event) {
	m.hear(e)
	m.resubmit(e)
}

// resubmit submits the sequence to the assigned replica.
func (m *Machine) resubmit(e event) {
	m.attempt++
	m.heard = e.now
	m.emit(Watch{m.replica.Actor})
	m.emit(Submit{To: m.replica.Actor, Revision: m.outputRevision(), Waited: e.now.Sub(m.placed)})
	m.setTimer(e, checkInterval)
}

func (m *Machine) accepted(e event) {
	m.hear(e)
	m.replica.Incarnation = e.incarnation
	if m.outputRevision() == "" {
		m.setRevision(e.digest)
		m.emit(KeepRevision{e.digest})
	}
}

func (m *Machine) submitRefused(e event) {
	m.cause = m.replica.Name + " refused the request: " + e.refusal.Detail
	m.delay(e, e.refusal.RetryAfter)
}

func (m *Machine) interrupted(e event) {
	m.interruptions++
	m.requeue(e)
}

func (m *Machine) requeue(e event) {
	m.cause = m.replica.Name + " interrupted the request: " + e.refusal.Detail
	m.delay(e, e.refusal.RetryAfter)
}

// faultyRefused requests another replica than a faulty one, of which the router may not know yet.
func (m *Machine) faultyRefused(e event) {
	m.avoidReplica()
	m.submitRefused(e)
}

// faultyInterrupted is like faultyRefused. The sequence may be the cause of the fault.
func (m *Machine) faultyInterrupted(e event) {
	m.faults++
	m.avoidReplica()
	m.interrupted(e)
}

// avoidReplica avoids the replica until the next new token.
func (m *Machine) avoidReplica() {
	if !slices.Contains(m.avoid, m.replica.Name) {
		m.avoid = append(m.avoid, m.replica.Name)
	}
}

func (m *Machine) lost(e event) {
	m.avoidReplica()
	m.cause = m.replica.Name + " is unreachable: it or its node stopped, or the connection broke"
	m.delay(e, minRetryDelay)
}

// detach drops the replica. It must unwatch: a replica keeps its watchers until then, even after
// they stopped.
func (m *Machine) detach() {
	if m.replica != (Replica{}) {
		m.emit(Unwatch{m.replica.Actor})
		m.replica = Replica{}
	}
}

// outputRevision returns the digest of the files that computed the output. Only replicas with the
// same files may continue it. It is empty while there is no output, or no replica has named its
// files.
func (m *Machine) outputRevision() string {
	if m.seen == 0 {
		return ""
	}
	return m.revision
}

// setTimer replaces the timer by one for the current attempt.
func (m *Machine) setTimer(e event, d time.Duration) {
	m.due = e.now.Add(d)
	m.emit(SetTimer{After: d, Attempt: m.attempt})
}

func (m *Machine) staleTimer(e event) bool { return e.attempt != m.attempt }

// own reports whether an event is from the assigned replica.
func (m *Machine) own(e event) bool { return m.isReplica(e.from) }

func (m *Machine) notOwn(e event) bool { return !m.own(e) }

// isReplica reports whether an actor is the assigned replica. An unknown one counts as that.
func (m *Machine) isReplica(a Actor) bool {
	return a == Actor{} || m.replica != (Replica{}) && a == m.replica.Actor
}

func (m *Machine) older(e event) bool { return e.incarnation < m.replica.Incarnation }

func (m *Machine) tooMany(e event) bool {
	return m.interruptions >= maxInterruptions || e.refusal.Reason == Faulty && m.faults >= maxFaults-1
}

package session

import (
	"fmt"
	"time"
)

func (m *Machine) hear(e event) { m.heard, m.answered = e.now, e.now }

// silence returns how long the replica had been silent when the timer was due. If the timer fired
// late, this process stalled; the stall does not count as silence.
func (m *Machine) silence() time.Duration { return m.due.Sub(m.heard) }

func (m *Machine) silent(event) bool { return m.silence() >= silenceTimeout }

// unanswered reports whether a silent replica was given the sequence again and again, and answered
// nothing. A busy replica answers sooner.
func (m *Machine) unanswered(e event) bool {
	return m.silent(e) && m.due.Sub(m.answered) >= answerTimeout
}

func (m *Machine) quiet(event) bool { return m.silence() >= checkInterval }

// wait checks again when the silence becomes remarkable.
func (m *Machine) wait(e event) {
	stall := e.now.Sub(m.due)
	m.heard, m.answered = m.heard.Add(stall), m.answered.Add(stall)
	m.setTimer(e, min(checkInterval, silenceTimeout-e.now.Sub(m.heard)))
}

// query asks a silent replica for the sequence, since messages may be lost.
func (m *Machine) query(e event) {
	m.emit(Query{m.replica.Actor})
	m.wait(e)
}

// abandon requests another replica when this one does not answer: it hangs or is unreachable. If
// the router still hears from the replica's node, the replica is only busy. The router may then
// return it again.
func (m *Machine) abandon(e event) {
	m.abandoned = m.replica
	m.cause = fmt.Sprintf("%s was silent for %s", m.replica.Name, m.silence().Round(time.Millisecond))
	m.route(e)
}

// giveUp requests another replica and avoids this one: it answers nothing though its node is heard
// from, so its actor is blocked.
func (m *Machine) giveUp(e event) {
	m.avoidReplica()
	m.abandon(e)
}

// tokensLost reports whether a replica lacks the sequence, or sent tokens that never arrived.
func (m *Machine) tokensLost(e event) bool { return !e.known || e.output > m.seen }

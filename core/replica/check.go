package replica

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/verify"
)

// Answer is what a canary gave at the first load of the same files, on the same kind of device.
type Answer struct{ Prompt, Tokens []uint32 }

// checkWithin is how long a check waits for an idle replica. After that, every second step belongs to the check
// until it has passed, so it ends within a few more steps on a replica that is always busy.
const checkWithin = 10 * time.Second

// check compares all recorded tokens of a canary after the replica has left standby, one token per step. It
// runs when the replica is idle; for checkWithin, requests come first.
type check struct {
	due    bool
	since  time.Time
	paused bool // the last step was one of the check, and the next one is not
	left   int  // tokens
	took   time.Duration
	passed time.Duration // the time of all its steps, once it has passed
}

// answers returns how many recorded tokens can be compared: their canaries fill no block.
func (m *Machine) answers() int {
	a := m.model.Canary
	n := min(len(a.Tokens), m.cfg.BlockTokens-len(a.Prompt))
	if i := slices.Index(a.Tokens, verify.NotFinite); i >= 0 {
		n = min(n, i)
	}
	return max(0, n)
}

// nextToken returns the index of the recorded token that the next canary computes.
func (m *Machine) nextToken() int {
	if m.check.due {
		return m.answers() - m.check.left
	}
	return m.canaryToken % m.answers()
}

// beginCheck begins a check, unless there are no canaries, or nothing is recorded.
func (m *Machine) beginCheck(now time.Time) {
	n := m.answers()
	if m.cfg.Watch.Canary == 0 || n == 0 {
		return
	}
	m.check = check{due: true, since: now, left: n}
	if m.fault == Sound && m.batch.Running()+m.batch.Waiting() == 0 {
		m.submitCanary(now)
	}
}

// checkOverdue reports whether a check goes on although the replica is busy.
func (m *Machine) checkOverdue(now time.Time) bool {
	return m.check.due && m.state == Serving && !m.Faulty() && now.Sub(m.check.since) >= checkWithin
}

// planCheck plans the next step of an overdue check on a busy replica, alone, unless the last step was one.
func (m *Machine) planCheck(now time.Time) (plan batch.Step, planned bool) {
	idle := !m.hasWork() // it may have no turn
	if _, queued := m.batch.State(canaryID); idle || queued || !m.checkOverdue(now) || m.check.paused {
		m.check.paused = false
		return batch.Step{}, false
	}
	if !m.submitCanary(now) {
		return batch.Step{}, false
	}
	if plan, planned = m.batch.PlanAlone(canaryID); !planned {
		m.batch.Drop(canaryID)
	}
	m.check.paused = planned
	return plan, planned
}

// answered compares the token of a canary with the recorded one.
func (m *Machine) answered(token uint32, e *event) {
	i := m.canaryIndex
	if want := m.model.Canary.Tokens[i]; token != want {
		m.canaryFailed(fmt.Sprintf("token %d is %d, and was %d at the first load", i+1, token, want), e.now)
		return
	}
	if !m.check.due {
		m.canaryToken++
		return
	}
	if i != m.nextToken() { // it is of a check that standby has ended
		return
	}
	m.check.took += m.canaryTook
	if m.check.left--; m.check.left > 0 {
		if m.batch.Running()+m.batch.Waiting() == 0 && m.state == Serving {
			m.submitCanary(e.now)
		}
		return
	}
	m.check = check{passed: max(m.check.took, 1)}
	m.totals.Verified++
	m.add(Verified{m.check.passed})
	m.sendKVReport()
}

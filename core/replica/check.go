package replica

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/verify"
)

// Answer is what a canary gave at the first load of the same files, on the same kind of device.
type Answer struct{ Prompt, Tokens []uint32 }

// check compares all recorded tokens of a canary after the replica has left standby, one token per step. It
// runs when the replica is idle; requests come first.
type check struct {
	due    bool
	left   int // tokens
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
	m.check = check{due: true, left: n}
	if m.fault == Sound && m.batch.Running()+m.batch.Waiting() == 0 {
		m.submitCanary(now)
	}
}

// answered compares the token of a canary with the recorded one.
func (m *Machine) answered(token uint32, e *event) {
	i := m.nextToken()
	if want := m.model.Canary.Tokens[i]; token != want {
		m.canaryFailed(fmt.Sprintf("token %d is %d, and was %d at the first load", i+1, token, want), e.now)
		return
	}
	if !m.check.due {
		m.canaryToken++
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

package tier

import (
	"slices"
	"time"

	"troupe/core/kv"
)

const (
	retryDelay = time.Second // pause after a failed copy
	maxBatch   = 128         // blocks copied at once
)

// Outcome is the result of a block's demotion.
type Outcome uint8

// Outcomes.
const (
	NotCopied     Outcome = iota // it could not be copied this time
	Stored                       // the lower tier has it
	DamagedSource                // its content is damaged
)

// shift applies a trigger to the state of the demotion.
func (m *Machine) shift(on Trigger) bool {
	if !m.move(Demotion, "", &m.demotion, on) {
		return false
	}
	m.tier.SetLowerAvailable(m.lowerAvailable())
	return true
}

// lowerAvailable reports whether blocks can currently be demoted to the tier below.
func (m *Machine) lowerAvailable() bool { return m.demotion == Idle || m.demotion == Copying }

// demote starts the next copy to the tier below if none is in flight and blocks are due. The blocks
// of a slab that is being reassigned come first.
func (m *Machine) demote() {
	if m.demotion != Idle {
		return
	}
	if len(m.due) == 0 {
		m.due = m.tier.SelectDemotions()
		slices.SortStableFunc(m.due, func(a, b kv.Demotion) int { return a.Size - b.Size })
	}
	m.due = append(m.tier.SelectSlabDemotions(), m.due...)
	if len(m.due) == 0 || !m.shift(selected) {
		return
	}
	m.copies++
	m.copying = m.nextBatch()
	m.emit(Copy{m.copies, m.copying})
}

// nextBatch returns the blocks to copy together: the first due blocks that have the same size.
func (m *Machine) nextBatch() (blocks []kv.Demotion) {
	n := 1
	for n < min(maxBatch, len(m.due)) && m.due[n].Size == m.due[0].Size {
		n++
	}
	blocks, m.due = m.due[:n:n], m.due[n:]
	return blocks
}

// CopyEnded ends a copy with the outcome of each block. Blocks without an outcome are NotCopied.
// After a failure, demotion pauses.
func (m *Machine) CopyEnded(outcomes []Outcome, fault bool) []Effect {
	how := copied
	if fault {
		how = failed
	}
	if !m.shift(how) {
		return m.end()
	}
	blocks := m.copying
	m.copying = nil
	for i, b := range blocks {
		how := NotCopied
		if i < len(outcomes) {
			how = outcomes[i]
		}
		if how == DamagedSource {
			m.drop(b.Hash)
		}
		m.tier.DemotionDone(b.Slot, how == Stored)
	}
	if fault {
		for _, b := range m.due {
			m.tier.DemotionDone(b.Slot, false)
		}
		m.due = nil
		m.emit(Pause{retryDelay})
	}
	m.demote()
	return m.end()
}

// Retry ends the pause after a failed copy.
func (m *Machine) Retry() []Effect {
	if m.shift(retried) {
		m.demote()
	}
	return m.end()
}

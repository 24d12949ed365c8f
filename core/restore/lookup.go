package restore

import (
	"slices"

	"troupe/core/kv"
)

func (m *Machine) nothing(*entry, event) {}

func (m *Machine) allInHBM(_ *entry, v event) bool {
	return v.candidate.Have >= len(v.candidate.Hashes)
}

func (m *Machine) noSource(_ *entry, v event) bool {
	return len(m.cfg.Tiers) == 0 && !v.candidate.Remote
}

func (m *Machine) full(*entry, event) bool { return !m.CanLookUp() }

func (m *Machine) sameBlock(_ *entry, v event) bool {
	return m.byBlock[v.candidate.Hashes[v.candidate.Have]] != nil
}

// wait holds a sequence until the entry that restores its first missing block has ended.
func (m *Machine) wait(e *entry, v event) {
	m.emit(Hold{e.id})
	e.waitsOn = m.byBlock[v.candidate.Hashes[v.candidate.Have]]
	e.waitsOn.waiters = append(e.waitsOn.waiters, e)
}

func (m *Machine) lookUp(e *entry, v event) {
	m.emit(Hold{e.id})
	m.byBlock[v.candidate.Hashes[v.candidate.Have]] = e
	m.prefetch(e, v)
}

func (m *Machine) prefetch(e *entry, v event) {
	m.last++
	e.number, m.entries[m.last] = m.last, e
	e.hashes, e.have = v.candidate.Hashes, v.candidate.Have
	l := LookUp{Number: e.number, Hashes: e.hashes[e.have:], Remote: v.candidate.Remote, Within: lookupTimeout}
	if m.cfg.Policy == kv.RestoreAlways {
		l.Within = tierTimeout
	}
	m.emit(l)
}

func (m *Machine) keepFound(e *entry, v event) {
	e.sources, e.holders = v.sources, v.holders
	m.found = append(m.found, e.number)
}

// forgetFound forgets blocks that are no longer locked.
func (m *Machine) forgetFound(e *entry, _ event) { e.sources, e.holders = nil, nil }

func (m *Machine) forCommand(e *entry, _ event) bool { return e.command != 0 }

func (m *Machine) nothingFound(e *entry, _ event) bool { return len(e.sources) == 0 }

func (m *Machine) notWaiting(e *entry, v event) bool { return e.command == 0 && !v.sequence.Waits }

func (m *Machine) recompute(_ *entry, v event) bool { return v.decision.Blocks == 0 }

// decide decides how many of the found blocks to restore. For a command it restores all of them.
func (m *Machine) decide(e *entry, s Sequence) kv.RestoreDecision {
	if e.command != 0 || m.cfg.Policy == kv.RestoreAlways {
		return kv.RestoreDecision{Blocks: len(e.sources), Recompute: tierTimeout,
			Why: "all blocks in lower tiers are restored"}
	}
	q := kv.RestoreCost{BlockBytes: m.cfg.BlockBytes, BlockTokens: m.cfg.BlockTokens, Prefill: m.prefill,
		StepTokens: m.cfg.StepTokens, Tokens: s.Tokens - e.have*m.cfg.BlockTokens, Sources: e.sources}
	for i, name := range m.cfg.Tiers {
		q.Paths = append(q.Paths, kv.Path{Name: name, Rate: m.rates[i], Parts: m.cfg.Parts})
	}
	for _, h := range e.holders {
		h.Parts = m.cfg.Parts
		q.Paths = append(q.Paths, h)
	}
	return q.Decide()
}

func (m *Machine) answerNone(e *entry, _ event) {
	m.emit(Unlock{e.number})
	m.emit(Answer{e.command, 0, "no lower tier has the next block"})
}

func (m *Machine) giveUp(e *entry, v event) {
	m.emit(Unlock{e.number})
	m.resume(e, v)
	m.wake(e, v)
}

// avoid leaves the found blocks of a sequence in their tiers, since recomputing them is faster. The
// measured rates of these tiers decay, so that the tiers are tried again later.
func (m *Machine) avoid(e *entry, v event) {
	if len(e.sources) > 0 {
		m.counts.Avoided++
		m.counts.Recomputed += uint64(len(e.sources))
	}
	for tier := range m.rates {
		if slices.Contains(e.sources, tier) {
			m.rates[tier].Decay()
		}
	}
	m.giveUp(e, v)
}

// release ends the lookup of a sequence that no longer exists.
func (m *Machine) release(e *entry, v event) {
	m.emit(Unlock{e.number})
	m.wake(e, v)
}

func (m *Machine) resume(e *entry, _ event) {
	e.waitsOn = nil
	m.emit(Resume{e.id})
}

// wake allows the sequences that wait for an entry to be looked up again.
func (m *Machine) wake(e *entry, _ event) {
	waiters := e.waiters
	e.waiters = nil
	if e.hashes != nil && m.byBlock[e.hashes[e.have]] == e {
		delete(m.byBlock, e.hashes[e.have])
	}
	m.woken = append(m.woken, waiters...)
}

// leave detaches an entry from its sequence, which no longer exists.
func (m *Machine) leave(e *entry, _ event) {
	e.id = ""
	if e.waitsOn != nil {
		e.waitsOn.waiters = slices.DeleteFunc(e.waitsOn.waiters, func(w *entry) bool { return w == e })
		e.waitsOn = nil
	}
}

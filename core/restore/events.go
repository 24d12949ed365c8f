package restore

import (
	"maps"
	"slices"
	"time"

	"troupe/core/kv"
)

// Prefilled records the duration of a step with a prefill.
func (m *Machine) Prefilled(tokens int, took time.Duration) { m.prefill.Add(float64(tokens), took) }

// Queued reports a sequence that was submitted or preempted. If the machine holds it, the sequence
// was resumed and has run in the meantime, and its old entry is dropped first.
func (m *Machine) Queued(id string) []Effect {
	e := m.byID[id]
	if e != nil && slices.Contains(held, e.state) {
		m.on(e, event{kind: Dropped})
		e = nil
	}
	if e == nil {
		e = &entry{id: id}
		m.byID[id] = e
	}
	return m.done(e, event{kind: Queued})
}

// Admissible reports the sequence that is next in line for admission. It may be admitted unless it
// is held now.
func (m *Machine) Admissible(c Candidate) []Effect {
	return m.done(m.byID[c.ID], event{kind: Admissible, candidate: c})
}

// Prefetch restores a prefix for a command. The first Have blocks of the candidate are in HBM.
func (m *Machine) Prefetch(command uint64, c Candidate) []Effect {
	return m.done(&entry{command: command}, event{kind: Prefetch, candidate: c})
}

// LookedUp reports where the leading blocks of a lookup are. For each block, sources has the index
// of its tier, or the number of tiers plus the index of its holder.
func (m *Machine) LookedUp(number uint64, sources []int, holders []kv.Path) []Effect {
	return m.done(m.entries[number], event{kind: LookedUp, sources: sources, holders: holders})
}

// NextFound returns the next lookup to be judged, and its sequence.
func (m *Machine) NextFound() (number uint64, id string, ok bool) {
	for len(m.found) > 0 {
		if e := m.entries[m.found[0]]; e != nil && e.state == Found {
			return e.number, e.id, true
		}
		m.found = m.found[1:]
	}
	return 0, "", false
}

// Judged decides, between two steps, whether the blocks of a lookup are restored.
func (m *Machine) Judged(number uint64, s Sequence) []Effect {
	e := m.entries[number]
	v := event{kind: Judged, sequence: s}
	if e != nil && e.state == Found {
		v.decision = m.decide(e, s)
	}
	return m.done(e, v)
}

// Reserved reports the blocks that were referenced and allocated.
func (m *Machine) Reserved(number uint64, begin, blocks []int32) []Effect {
	return m.done(m.entries[number], event{kind: Reserved, begin: begin, blocks: blocks})
}

// Arrived reports that another part of all blocks has arrived: the number of parts so far, and the
// time since the copies began.
func (m *Machine) Arrived(number uint64, arrived, parts int, elapsed time.Duration) []Effect {
	e := m.entries[number]
	v := event{kind: Arrived}
	if e != nil {
		v.overlap = e.arrive(arrived, parts, elapsed)
	}
	return m.done(e, v)
}

// StartReady starts, between two steps, the sequences whose remaining blocks will arrive before
// they are read.
func (m *Machine) StartReady() []Effect {
	m.ready = slices.DeleteFunc(m.ready, func(n uint64) bool {
		e := m.entries[n]
		return e == nil || e.state != Ready
	})
	for _, n := range m.ready {
		m.on(m.entries[n], event{kind: Start})
	}
	return m.take()
}

// Started reports that a sequence runs on blocks that are still being copied.
func (m *Machine) Started(number uint64) []Effect {
	return m.done(m.entries[number], event{kind: Started})
}

// StepDone reports that the first step of a started sequence is done, so all its blocks have
// arrived.
func (m *Machine) StepDone(id string) []Effect { return m.done(m.byID[id], event{kind: StepDone}) }

// StepAborted reports that a step was aborted, because the gate of a sequence failed.
func (m *Machine) StepAborted(id string) []Effect {
	m.counts.Aborted++
	return m.done(m.byID[id], event{kind: StepAborted})
}

// Copied reports the end of copies.
func (m *Machine) Copied(number uint64, r Result) []Effect {
	return m.done(m.entries[number], event{kind: Copied, result: r})
}

// EndRestores applies the results of ended copies, between two steps.
func (m *Machine) EndRestores() []Effect {
	all := m.ended
	m.ended = nil
	for _, n := range all {
		m.on(m.entries[n], event{kind: Ended})
	}
	return m.take()
}

// Dropped reports that a sequence no longer exists.
func (m *Machine) Dropped(id string) []Effect {
	if m.byID[id] == nil {
		return nil
	}
	return m.done(m.byID[id], event{kind: Dropped})
}

// CopierLost reports that the copier has restarted. The restart unlocked all blocks that were
// looked up, and ended all copies.
func (m *Machine) CopierLost() []Effect {
	for _, n := range slices.Sorted(maps.Keys(m.entries)) {
		if e := m.entries[n]; e != nil && slices.Contains(atCopier, e.state) && e.result == nil {
			m.on(e, event{kind: Lost})
		}
	}
	return m.take()
}

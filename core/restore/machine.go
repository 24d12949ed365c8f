package restore

import (
	"maps"
	"slices"
	"time"

	"troupe/core/kv"
)

const (
	maxLookups        = 8                      // maximum number of concurrent lookups and restores for sequences
	tierTimeout       = 2 * time.Second        // of a tier's answer, and of a restore that is not limited otherwise
	lookupTimeout     = 100 * time.Millisecond // of a tier's answer while a sequence is held for it
	minRestoreTimeout = 20 * time.Millisecond  // minimum timeout of a restore, however fast recomputing is
)

// Config is fixed for the life of a machine.
type Config struct {
	Tiers       []string // names, the fastest first
	Policy      kv.RestorePolicy
	BlockBytes  int64
	BlockTokens int
	StepTokens  int // in one step; 0: no limit
	Parts       int // in which blocks are copied
	// Number is below all numbers of entries. It must be higher than those that an earlier machine
	// used at the same copier.
	Number uint64
}

// Machine decides what is restored for the sequences of a replica. It is not safe for concurrent
// use.
type Machine struct {
	cfg     Config
	entries map[uint64]*entry  // with a lookup or copies, by number
	byID    map[string]*entry  // sequences, by request id
	byBlock map[kv.Hash]*entry // lookups and copies for sequences, by first missing block
	last    uint64             // last number
	active  int                // entries that count against maxLookups

	found []uint64 // to be judged, in order of arrival
	ready []uint64 // may start, in order of their lookups
	ended []uint64 // to be applied, in order of arrival

	prefill kv.Rate   // tokens per second
	rates   []kv.Rate // bytes per second, by tier
	counts  Counts

	woken   []*entry // by the current event
	effects []Effect
}

// entry is a sequence, a command, or the copies that either left behind.
type entry struct {
	number  uint64 // of the lookup and its copies; 0 before the lookup
	id      string // of the sequence; empty: none
	command uint64 // 0: not for a command
	state   State

	waiters []*entry // sequences that wait for the end of this entry
	waitsOn *entry   // in state Waiting

	hashes  []kv.Hash // of the blocks that the sequence can start with
	have    int       // leading ones in HBM
	sources []int     // by found block: index of its tier, or number of tiers plus index of its holder
	holders []kv.Path // of remote holders
	within  time.Duration
	why     string // of the decision to restore
	tokens  int    // of the sequence

	begin    []int32 // referenced blocks before the copied ones
	blocks   []int32 // destinations of the copies
	gate     bool    // the sequence may start before the last part arrives
	estimate kv.OverlapEstimate
	result   *Result // nil: the copies have not ended
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind      Event
	candidate Candidate
	sources   []int
	holders   []kv.Path
	sequence  Sequence
	decision  kv.RestoreDecision
	begin     []int32
	blocks    []int32
	overlap   kv.OverlapDecision
	result    Result
}

// New returns a machine without entries.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, entries: make(map[uint64]*entry), byID: make(map[string]*entry),
		byBlock: make(map[kv.Hash]*entry), last: cfg.Number, rates: make([]kv.Rate, len(cfg.Tiers))}
}

// State returns the state of a sequence.
func (m *Machine) State(id string) State {
	if e := m.byID[id]; e != nil {
		return e.state
	}
	return Gone
}

// Counts returns the totals.
func (m *Machine) Counts() Counts { return m.counts }

// CanLookUp reports whether a further sequence can be looked up.
func (m *Machine) CanLookUp() bool { return m.active < maxLookups }

// Gate returns the gate that the first step of a started sequence has to pass; 0: none.
func (m *Machine) Gate(id string) uint64 {
	if e := m.byID[id]; e != nil && e.state == Overlapped {
		return e.number
	}
	return 0
}

// Prefilled records the duration of a step with a prefill.
func (m *Machine) Prefilled(tokens int, took time.Duration) { m.prefill.Add(float64(tokens), took) }

// Queued reports a sequence that was submitted or preempted. If it was held, it was resumed and ran
// meanwhile; then it is first dropped.
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

// Admissible reports the sequence that is admitted next. Unless it is held now, it may be admitted.
func (m *Machine) Admissible(c Candidate) []Effect {
	return m.done(m.byID[c.ID], event{kind: Admissible, candidate: c})
}

// Prefetch restores a prefix for a command, of whose hashes the first ones are in HBM.
func (m *Machine) Prefetch(command uint64, c Candidate) []Effect {
	return m.done(&entry{command: command}, event{kind: Prefetch, candidate: c})
}

// LookedUp reports where the leading blocks of a lookup are: for each the index of its tier, or the
// number of tiers plus the index of its holder.
func (m *Machine) LookedUp(number uint64, sources []int, holders []kv.Path) []Effect {
	return m.done(m.entries[number], event{kind: LookedUp, sources: sources, holders: holders})
}

// NextFound returns the next lookup to be judged and the sequence that it is for.
func (m *Machine) NextFound() (number uint64, id string, ok bool) {
	for len(m.found) > 0 {
		if e := m.entries[m.found[0]]; e != nil && e.state == Found {
			return e.number, e.id, true
		}
		m.found = m.found[1:]
	}
	return 0, "", false
}

// Judged decides between two steps what a lookup leads to.
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

// Arrived reports that a further part of all blocks has arrived: how many of the parts have, and
// the time since the copies began.
func (m *Machine) Arrived(number uint64, arrived, parts int, elapsed time.Duration) []Effect {
	e := m.entries[number]
	v := event{kind: Arrived}
	if e != nil {
		v.overlap = e.arrive(arrived, parts, elapsed)
	}
	return m.done(e, v)
}

// StartReady starts between two steps the sequences whose remaining blocks will arrive before they
// are read.
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

// StepDone reports that the first step of a started sequence is done, so that all its blocks have
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

// CopierLost reports that the copier has restarted: it unlocked what was looked up and ended all
// copies.
func (m *Machine) CopierLost() []Effect {
	for _, n := range slices.Sorted(maps.Keys(m.entries)) {
		if e := m.entries[n]; e != nil && slices.Contains(atCopier, e.state) && e.result == nil {
			m.on(e, event{kind: Lost})
		}
	}
	return m.take()
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// done applies an event and returns the effects.
func (m *Machine) done(e *entry, v event) []Effect {
	m.on(e, v)
	return m.take()
}

func (m *Machine) take() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

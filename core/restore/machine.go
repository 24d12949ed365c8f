package restore

import (
	"slices"
	"time"

	"troupe/core/kv"
)

const (
	maxLookups        = 8                      // maximum number of concurrent lookups and restores for sequences
	tierTimeout       = 2 * time.Second        // of a tier's answer, and of a restore without another limit
	lookupTimeout     = 100 * time.Millisecond // of a tier's answer to a lookup while a sequence is held
	minRestoreTimeout = 20 * time.Millisecond  // minimum timeout of a restore, however fast recomputing is
)

// Config is fixed for the life of a machine.
type Config struct {
	Tiers       []string // names, the fastest first
	Policy      kv.RestorePolicy
	BlockBytes  int64
	BlockTokens int
	StepTokens  int // in one step; 0: no limit
	Parts       int // number of parts in which each block is copied
	// Number is the number after which entries are numbered. It must be higher than any number that
	// an earlier machine used with the same copier.
	Number uint64
}

// Machine decides what is restored for the sequences of a replica. It is not safe for concurrent
// use.
type Machine struct {
	cfg     Config
	entries map[uint64]*entry  // entries with a lookup or copies, by number
	byID    map[string]*entry  // entries of sequences, by request id
	byBlock map[kv.Hash]*entry // lookups and copies for sequences, by first missing block
	last    uint64             // number of the last entry
	active  int                // number of entries that count against maxLookups

	found []uint64 // lookups to be judged, in order of arrival
	ready []uint64 // entries whose sequence may start, in order of their lookups
	ended []uint64 // entries whose copies have ended, in order of arrival

	prefill kv.Rate   // tokens per second
	rates   []kv.Rate // bytes per second, by tier
	counts  Counts

	woken   []*entry // entries woken by the current event
	effects []Effect
}

// entry is a sequence, a command, or the copies that either left behind.
type entry struct {
	number  uint64 // of the lookup and its copies; 0 before the lookup
	id      string // request id of the sequence; empty: none
	command uint64 // 0: not for a command
	state   State

	waiters []*entry // sequences that wait for the end of this entry
	waitsOn *entry   // in state Waiting

	hashes  []kv.Hash // of the blocks that the sequence can start with
	have    int       // number of leading blocks in HBM
	sources []int     // by found block: index of its tier, or number of tiers plus index of its holder
	holders []kv.Path // of remote holders
	within  time.Duration
	why     string // reason for the decision to restore
	tokens  int    // number of tokens of the sequence

	begin    []int32 // referenced HBM blocks that precede the copied ones
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

// Holds reports whether a sequence is held until the machine resumes or starts it.
func (m *Machine) Holds(id string) bool { return slices.Contains(held, m.State(id)) }

// Counts returns the totals.
func (m *Machine) Counts() Counts { return m.counts }

// CanLookUp reports whether another sequence can be looked up.
func (m *Machine) CanLookUp() bool { return m.active < maxLookups }

// Gate returns the gate that the first step of a started sequence has to pass; 0: none.
func (m *Machine) Gate(id string) uint64 {
	if e := m.byID[id]; e != nil && e.state == Overlapped {
		return e.number
	}
	return 0
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

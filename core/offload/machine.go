package offload

import (
	"cmp"
	"time"

	"troupe/core/kv"
)

const (
	defaultIdleSteps = 100
	burstShare       = 16          // one copy has at most the number of HBM blocks divided by burstShare
	stepsPerReport   = 32          // steps between two step reports
	retryDelay       = time.Second // pause after a copy that stored no block
	notReadyRetry    = 20 * time.Millisecond
)

// Actor is the address of an actor; the zero value is none.
type Actor struct{ Address, ID string }

// Config is fixed for the life of a machine.
type Config struct {
	Replica string
	Node    string
	Tier    string // name of the first tier below HBM; empty: there is none that fits
	Remote  bool   // there are tiers or remote holders to restore blocks from
	Digest  bool   // the model's files have a digest; without one, no block is copied out or in
	Number  uint64 // copies get numbers above this one
	// Watermark is the share of the pool above which blocks are offloaded ahead of need; default
	// kv.DefaultWatermark.
	Watermark float64
	IdleSteps uint64 // number of steps after which a block without readers is offloaded; default 100
}

// Machine decides what a replica offloads. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	state State

	burst    kv.BurstEstimator // estimated from allocations
	limit    int               // maximum number of blocks in one copy, set by the last Tick
	steps    uint64            // so far
	reported uint64            // steps reported to the tiers
	idleDue  bool              // the current tick also selects idle blocks
	copies   uint64            // number of copies so far
	copying  []kv.Committed    // in state Copying
	stored   uint64            // number of blocks stored so far
	command  *command          // nil: no OffloadBlocks command is in progress

	pinVersion uint64
	pinned     []kv.Hash

	effects []Effect
}

// command is the OffloadBlocks command in progress. It answers one or more requests to copy all
// blocks.
type command struct {
	requests []request
	began    time.Time
	blocks   int // number of blocks stored so far
}

type request struct {
	id   string
	from Actor
}

// Tick describes a replica between two steps.
type Tick struct {
	Steps       uint64 // steps run so far
	Allocations uint64 // blocks allocated so far
	Blocks      int    // blocks in the pool
	AllBlocks   int    // blocks in the pool when it is not shrunk
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind   Event
	now    time.Time
	tick   Tick
	blocks []kv.Committed
	stored []bool
	fault  string
	ready  bool
	request
}

// New returns a machine that has seen no step.
func New(cfg Config) *Machine {
	cfg.Watermark, cfg.IdleSteps = cmp.Or(cfg.Watermark, kv.DefaultWatermark), cmp.Or(cfg.IdleSteps, defaultIdleSteps)
	m := &Machine{cfg: cfg, copies: cfg.Number}
	if cfg.Tier != "" && cfg.Digest {
		m.state = Idle
	}
	return m
}

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Stored returns the total number of blocks stored.
func (m *Machine) Stored() uint64 { return m.stored }

// Tick reports that no step is in flight.
func (m *Machine) Tick(t Tick) []Effect { return m.on(event{kind: TickEvent, tick: t}) }

// Selected reports the blocks that the pool selected.
func (m *Machine) Selected(blocks []kv.Committed, now time.Time) []Effect {
	return m.on(event{kind: SelectedEvent, blocks: blocks, now: now})
}

// Copied reports the end of a copy: which of its blocks the tier has now, and the error, or "" if
// none occurred.
func (m *Machine) Copied(number uint64, stored []bool, fault string, now time.Time) []Effect {
	if number != m.copies {
		return []Effect{Ignored{m.state, CopiedEvent}}
	}
	return m.on(event{kind: CopiedEvent, stored: stored, fault: fault, now: now})
}

// CopyLost reports that a copy in flight ended without a result. It does nothing if there is none.
func (m *Machine) CopyLost(now time.Time) []Effect {
	if m.state != Copying {
		return nil
	}
	return m.Copied(m.copies, nil, "the copy was interrupted", now)
}

// Retry reports that the pause is over.
func (m *Machine) Retry() []Effect { return m.on(event{kind: RetryEvent}) }

// Offload requests to copy all blocks. ready reports whether the replica is serving.
func (m *Machine) Offload(id string, from Actor, ready bool, now time.Time) []Effect {
	return m.on(event{kind: OffloadEvent, request: request{id, from}, ready: ready, now: now})
}

// Restore requests to restore the blocks of a prefix.
func (m *Machine) Restore(id string, from Actor, ready bool) []Effect {
	return m.on(event{kind: RestoreEvent, request: request{id, from}, ready: ready})
}

// Flush requests to drop blocks from HBM.
func (m *Machine) Flush(id string, from Actor, ready bool) []Effect {
	return m.on(event{kind: FlushEvent, request: request{id, from}, ready: ready})
}

// SyncPins sends the pins to the tiers again. It loads them first if the version has changed.
func (m *Machine) SyncPins(version uint64) []Effect {
	switch {
	case !m.cfg.Digest && m.cfg.Remote:
		return nil
	case version != m.pinVersion:
		m.pinVersion = version
		m.emit(LoadPins{})
	default:
		m.sendPins()
	}
	return m.end()
}

// PinsLoaded reports the blocks of the pinned prefixes. Those in HBM are pinned, and missing ones
// are restored.
func (m *Machine) PinsLoaded(prefixes [][]kv.Hash) []Effect {
	m.pinned = nil
	set := make(map[kv.Hash]bool)
	for _, hashes := range prefixes {
		for _, h := range hashes {
			set[h] = true
		}
		m.pinned = append(m.pinned, hashes...)
		if m.cfg.Remote {
			m.emit(Prefetch{Hashes: hashes})
		}
	}
	m.emit(SetPins{set})
	m.sendPins()
	return m.end()
}

func (m *Machine) sendPins() {
	if m.cfg.Tier != "" && m.pinVersion != 0 {
		m.emit(SendPins{m.pinned})
	}
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) end() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

package device

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/core/residency"
)

// Config is fixed for the life of a Memory.
type Config struct {
	Name  string // name of the device
	Total int64  // size of its memory in bytes
	// KVReserve is the share of the memory that is reserved for KV blocks.
	KVReserve float64
}

// Memory decides what is in the memory of one device. It is not safe for concurrent use.
type Memory struct {
	cfg     Config
	ledger  *hbm.Ledger
	weights *residency.Machine
	holders map[string]*holder // by lease; a lease without an entry is Absent
	suspect bool               // the device is lost or quarantined, so unused weights are not kept

	attempt    uint64    // number of the last resize or allocation
	lastDemand time.Time // last demand for memory other than growth

	queue   []event // events that the current event causes
	effects []Effect
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind    Event
	lease   string
	now     time.Time
	health  quarantine.State
	request Request
	spec    Spec
	size    Size
	files   Files
	copy    uint64
	fate    residency.Fate
	model   Model
	failure Failure
	report  Report
	pool    PoolReport
	replica Actor // or the pool of its adapters
	attempt uint64
	blocks  int
	pages   int
	bytes   int64
	until   time.Time // deadline
	refusal Refusal
	why     string
}

// New returns the memory of a device that already holds these models and copies of weights, left by
// an earlier incarnation. attempt is the Attempt of that incarnation.
func New(cfg Config, models []Model, copies []residency.Copy, attempt uint64, now time.Time) *Memory {
	ledger := hbm.NewLedger(cfg.Total)
	m := &Memory{
		cfg: cfg, ledger: ledger, weights: residency.New(ledger, copies, attempt, now),
		holders: make(map[string]*holder), attempt: attempt, lastDemand: now,
	}
	models = slices.Clone(models)
	slices.SortFunc(models, func(a, b Model) int { return cmp.Compare(a.Lease, b.Lease) })
	for _, model := range models {
		m.handle(event{kind: Recovered, lease: model.Lease, model: model, now: now})
	}
	m.effects = nil
	return m
}

// LoadAsked requests that the model of a lease be loaded.
func (m *Memory) LoadAsked(r Request, spec Spec, health quarantine.State, now time.Time) []Effect {
	return m.handle(event{kind: LoadAsked, lease: spec.Lease, request: r, spec: spec, health: health, now: now})
}

// Inspected reports the sizes and the files of a model.
func (m *Memory) Inspected(lease string, size Size, files Files, now time.Time) []Effect {
	return m.handle(event{kind: Inspected, lease: lease, size: size, files: files, now: now})
}

// InspectFailed reports that the sizes could not be read.
func (m *Memory) InspectFailed(lease string, f Failure, now time.Time) []Effect {
	return m.handle(event{kind: InspectFailed, lease: lease, failure: f, now: now})
}

// Loaded reports that a lease was opened.
func (m *Memory) Loaded(model Model, now time.Time) []Effect {
	return m.handle(event{kind: Loaded, lease: model.Lease, model: model, now: now})
}

// LoadFailed reports that a lease could not be opened and has left nothing in memory.
func (m *Memory) LoadFailed(lease string, f Failure, now time.Time) []Effect {
	return m.handle(event{kind: LoadFailed, lease: lease, failure: f, now: now})
}

// UnloadAsked requests that the memory of a lease be freed. The fate is that of its weights if no
// other lease uses them.
func (m *Memory) UnloadAsked(r Request, lease string, fate residency.Fate, now time.Time) []Effect {
	return m.handle(event{kind: UnloadAsked, lease: lease, request: r, fate: fate, now: now})
}

// UnloadAll frees the memory of all resident models and weights, which are lost with the device.
func (m *Memory) UnloadAll(now time.Time) (all []Effect) {
	m.suspect = true
	all = m.handleWeights(m.weights.DropAll("the device is lost", now), Failure{}, now)
	for _, h := range m.sorted() {
		if h.phase == Resident {
			all = append(all, m.handle(event{kind: UnloadAsked, lease: h.lease, now: now})...)
		}
	}
	return all
}

// Freed reports that the memory of a lease is free.
func (m *Memory) Freed(lease string, bytes int64, now time.Time) []Effect {
	return m.handle(event{kind: Freed, lease: lease, bytes: bytes, now: now})
}

// FreeFailed reports that the memory of a lease could not be freed.
func (m *Memory) FreeFailed(lease string, f Failure, now time.Time) []Effect {
	return m.handle(event{kind: FreeFailed, lease: lease, failure: f, now: now})
}

// Reported handles a replica's report on the KV memory of its lease.
func (m *Memory) Reported(replica Actor, lease string, r Report, now time.Time) []Effect {
	return m.handle(event{kind: Reported, lease: lease, replica: replica, report: r, now: now})
}

// Shrunk reports that a replica no longer uses the blocks that an AskShrink named, and that it runs
// no step until NotifyReplica.
func (m *Memory) Shrunk(replica Actor, lease string, attempt uint64, now time.Time) []Effect {
	return m.handle(event{kind: Shrunk, lease: lease, replica: replica, attempt: attempt, now: now})
}

// ShrinkRefused reports that a replica keeps the blocks that an AskShrink named.
func (m *Memory) ShrinkRefused(replica Actor, lease string, attempt uint64, why string, now time.Time) []Effect {
	return m.handle(event{kind: Kept, lease: lease, replica: replica, attempt: attempt, why: why, now: now})
}

// Timer reports that the timeout of an AskShrink has expired.
func (m *Memory) Timer(lease string, attempt uint64, now time.Time) []Effect {
	return m.handle(event{kind: TimedOut, lease: lease, attempt: attempt, now: now})
}

// Resized reports the new number of blocks in the KV memory of a lease.
func (m *Memory) Resized(lease string, attempt uint64, blocks int, now time.Time) []Effect {
	return m.handle(event{kind: Resized, lease: lease, attempt: attempt, blocks: blocks, now: now})
}

// NotResized reports that the KV memory of a lease could not be resized and is unchanged.
func (m *Memory) NotResized(lease string, attempt uint64, f Failure, now time.Time) []Effect {
	return m.handle(event{kind: NotResized, lease: lease, attempt: attempt, failure: f, now: now})
}

// AdaptersAsked requests memory for adapters: the given number of pages, or as many as are useful
// if pages is 0.
func (m *Memory) AdaptersAsked(r Request, lease string, pages int, now time.Time) []Effect {
	return m.handle(event{kind: AdaptersAsked, lease: lease, request: r, pages: pages, now: now})
}

// Allocated reports the number of pages that a lease has for adapters.
func (m *Memory) Allocated(lease string, attempt uint64, pages int, now time.Time) []Effect {
	return m.handle(event{kind: Allocated, lease: lease, attempt: attempt, pages: pages, now: now})
}

// NotAllocated reports that the memory for adapters could not be allocated.
func (m *Memory) NotAllocated(lease string, attempt uint64, f Failure, now time.Time) []Effect {
	return m.handle(event{kind: NotAllocated, lease: lease, attempt: attempt, failure: f, now: now})
}

// PoolReported handles the report of an adapter pool on the pages of its lease.
func (m *Memory) PoolReported(
	pool Actor, lease string, r PoolReport, health quarantine.State, now time.Time,
) []Effect {
	return m.handle(event{kind: PoolReported, lease: lease, replica: pool, pool: r, health: health, now: now})
}

// PoolShrunk reports that a pool has given back the pages that an AskPool requested. It uses no more
// than that until NotifyPool.
func (m *Memory) PoolShrunk(pool Actor, lease string, attempt uint64, now time.Time) []Effect {
	return m.handle(event{kind: PoolShrunk, lease: lease, replica: pool, attempt: attempt, now: now})
}

// PoolTimer reports that the timeout of an AskPool has expired.
func (m *Memory) PoolTimer(lease string, attempt uint64, now time.Time) []Effect {
	return m.handle(event{kind: PoolTimedOut, lease: lease, attempt: attempt, now: now})
}

// PagesChanged reports the new number of pages that a lease has for adapters.
func (m *Memory) PagesChanged(lease string, attempt uint64, pages int, now time.Time) []Effect {
	return m.handle(event{kind: PagesChanged, lease: lease, attempt: attempt, pages: pages, now: now})
}

// PagesNotChanged reports that the pages for adapters of a lease could not be changed, and their number.
func (m *Memory) PagesNotChanged(lease string, attempt uint64, pages int, f Failure, now time.Time) []Effect {
	return m.handle(event{kind: PagesNotChanged, lease: lease, attempt: attempt, pages: pages, failure: f, now: now})
}

// Tick must be called every second. It ends expired waits and reads, and distributes free memory. A device that
// is quarantined must become empty, so it keeps no unused weights.
func (m *Memory) Tick(health quarantine.State, now time.Time) []Effect {
	if m.suspect = health != quarantine.Healthy; m.suspect {
		m.performWeights(m.weights.DropAll("the device is quarantined", now), Failure{}, now)
	}
	m.performWeights(m.weights.Tick(now), Failure{}, now)
	m.tryWaiting(now)
	m.distribute(health, now)
	return m.take()
}

// handle handles an event and the events that it causes, and then tries the requests that wait for
// memory.
func (m *Memory) handle(e event) []Effect {
	m.follow(e)
	return m.handled(e.now)
}

// handled handles the queued events, and then tries the requests that wait for memory.
func (m *Memory) handled(now time.Time) []Effect {
	m.drain()
	if len(m.effects) == 1 {
		switch m.effects[0].(type) {
		case Ignored, WeightsIgnored:
			return m.take()
		}
	}
	m.tryWaiting(now)
	return m.take()
}

// drain handles the queued events.
func (m *Memory) drain() {
	for len(m.queue) > 0 {
		e := m.queue[0]
		m.queue = m.queue[1:]
		m.dispatch(e)
	}
	maps.DeleteFunc(m.holders, func(_ string, h *holder) bool { return h.phase == Absent })
}

// dispatch applies an event to its table.
func (m *Memory) dispatch(e event) {
	h := m.holders[e.lease]
	if h == nil {
		h = &holder{lease: e.lease}
	}
	switch {
	case e.kind <= FreeFailed:
		apply(m, h, leases, &h.phase, e)
	case e.kind <= NotResized:
		apply(m, h, kvTable, &h.kv.state, e)
	case e.kind <= Closed:
		apply(m, h, kvTable, &h.kv.state, e)
		apply(m, h, adapterTable, &h.adapters.state, e)
	default:
		apply(m, h, adapterTable, &h.adapters.state, e)
	}
	m.holders[e.lease] = h
}

// follow queues an event that the current one causes.
func (m *Memory) follow(e event) { m.queue = append(m.queue, e) }

func (m *Memory) emit(e Effect) { m.effects = append(m.effects, e) }

// take returns the effects of the event.
func (m *Memory) take() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

// Attempt returns a number that no resize, no allocation and no copy of weights has exceeded.
func (m *Memory) Attempt() uint64 { return max(m.attempt, m.weights.Last()) }

// sorted returns the holders, sorted by lease.
func (m *Memory) sorted() []*holder {
	all := make([]*holder, 0, len(m.holders))
	for _, lease := range slices.Sorted(maps.Keys(m.holders)) {
		all = append(all, m.holders[lease])
	}
	return all
}

package remote

import (
	"maps"
	"slices"
	"time"

	"troupe/core/kv"
)

const (
	maxLookups    = 256 // unanswered lookups
	maxWaiting    = 64  // fetches that wait for capacity
	sweepInterval = time.Second
	retryDelay    = 100 * time.Millisecond // RetryAfter of refusals that are expected to end soon
)

// Actor is the address of an actor; the zero value is none.
type Actor struct{ Address, ID string }

// Machine decides what a remote tier does. It is not safe for concurrent use.
type Machine struct {
	fetcher *kv.RemoteFetcher
	lookups map[string]lookup // by request id
	fetches map[string]*fetch // by request id
	effects []Effect
}

// lookup is a FindBlocks request that the router has not answered.
type lookup struct {
	from   Actor
	blocks []uint64 // fingerprints, as tiers announce them
	asked  time.Time
}

// fetch is a FetchBlocks request that has not been answered.
type fetch struct {
	state    State
	from     Actor // requester; in state Abandoned it no longer waits
	holder   Actor
	deadline time.Time
}

// event is an event of one lookup or fetch. Only the fields of its trigger are set.
type event struct {
	id      string
	now     time.Time
	from    Actor
	blocks  []uint64
	runs    []Run
	request Request
	count   int
	detail  string
}

// Request is a FetchBlocks request.
type Request struct {
	ID        string
	From      Actor
	Holder    Actor
	Name      string   // name of the holder
	Blocks    []uint64 // as known to tiers
	Bytes     int64    // total size of the blocks
	Within    time.Duration
	Malformed string // why the request is invalid; empty if it is valid
}

// Run is a run of consecutive blocks that one holder has.
type Run struct {
	First, Blocks int    // of the blocks that were looked up
	Name          string // name of the holder
}

// New returns a machine that knows no holders. capacity limits the bytes in flight.
func New(capacity int64) *Machine {
	return &Machine{
		fetcher: kv.NewRemoteFetcher(capacity, maxWaiting), lookups: make(map[string]lookup),
		fetches: make(map[string]*fetch),
	}
}

// Start starts the sweeps.
func (m *Machine) Start() []Effect {
	m.emit(SweepAfter{sweepInterval})
	return m.end()
}

// Find looks up the holders of blocks.
func (m *Machine) Find(id string, from Actor, blocks []uint64, now time.Time) []Effect {
	trigger := asked
	if m.State(Lookup, id) == None && len(m.lookups) >= maxLookups {
		trigger = tooMany
	}
	m.on(Lookup, trigger, event{id: id, from: from, blocks: blocks, now: now})
	return m.end()
}

// Found reports the router's answer to a lookup.
func (m *Machine) Found(id string, runs []Run, now time.Time) []Effect {
	m.on(Lookup, found, event{id: id, runs: runs, now: now})
	return m.end()
}

// Fetch requests a fetch. It starts as soon as the capacity allows.
func (m *Machine) Fetch(r Request, now time.Time) []Effect {
	e := event{id: r.ID, request: r, from: r.From, now: now}
	if m.State(Fetch, r.ID) != None {
		m.on(Fetch, repeated, e)
		return m.end()
	}
	if r.Malformed != "" {
		m.on(Fetch, malformed, e)
		return m.end()
	}
	begin, err := m.fetcher.Start(kv.Fetch{ID: r.ID, Holder: r.Name, Blocks: r.Blocks, Bytes: r.Bytes})
	if err != nil {
		e.detail = err.Error()
		m.on(Fetch, full, e)
		return m.end()
	}
	m.on(Fetch, queued, e)
	m.begin(begin, now)
	return m.end()
}

// begin leases the blocks of fetches that may start.
func (m *Machine) begin(all []kv.Fetch, now time.Time) {
	for len(all) > 0 {
		id := all[0].ID
		if all = all[1:]; m.fetches[id].deadline.After(now) {
			m.on(Fetch, started, event{id: id, now: now})
			continue
		}
		m.on(Fetch, late, event{id: id, now: now})
		all = append(all, m.fetcher.Finish(id, 0)...)
	}
}

// Sent reports that the holder has sent the leading blocks of a fetch.
func (m *Machine) Sent(id string, blocks int, now time.Time) []Effect {
	return m.ended(sent, event{id: id, count: blocks, now: now})
}

// Refused reports that the holder refused a fetch.
func (m *Machine) Refused(id string, now time.Time) []Effect {
	return m.ended(refused, event{id: id, now: now})
}

// Failed reports that the holder could not be reached.
func (m *Machine) Failed(id, detail string, now time.Time) []Effect {
	return m.ended(failed, event{id: id, detail: detail, now: now})
}

func (m *Machine) ended(how Trigger, e event) []Effect {
	if m.on(Fetch, how, e) {
		m.begin(m.fetcher.Finish(e.id, e.count), e.now)
	}
	return m.end()
}

// Release cancels a fetch whose requester no longer waits. A fetch that was already sent to its
// holder ends with the answer of the holder.
func (m *Machine) Release(id string, now time.Time) []Effect {
	if m.on(Fetch, released, event{id: id, now: now}) && m.State(Fetch, id) == None {
		m.begin(m.fetcher.Finish(id, 0), now)
	}
	return m.end()
}

// Fetched reports the measurement of a fetch from a holder, of which wanted blocks were requested.
func (m *Machine) Fetched(name, node string, wanted int, f kv.FetchSample, now time.Time) {
	m.fetcher.Record(name, node, wanted, f, now)
}

// Sweep drops lookups that were not answered and fetches that waited too long.
func (m *Machine) Sweep(now time.Time) []Effect {
	m.emit(SweepAfter{sweepInterval})
	for _, id := range slices.Sorted(maps.Keys(m.lookups)) {
		if now.Sub(m.lookups[id].asked) > sweepInterval {
			m.on(Lookup, expired, event{id: id})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.fetches)) {
		if f := m.fetches[id]; f != nil && f.state == Waiting && now.After(f.deadline) {
			m.on(Fetch, late, event{id: id, now: now})
			m.begin(m.fetcher.Finish(id, 0), now)
		}
	}
	return m.end()
}

// Stop ends all fetches, since no actor will handle their results, and drops all lookups.
func (m *Machine) Stop() []Effect {
	clear(m.lookups)
	for _, id := range slices.Sorted(maps.Keys(m.fetches)) {
		m.on(Fetch, stopped, event{id: id})
		m.fetcher.Finish(id, 0)
	}
	return m.end()
}

// Stats returns the current statistics.
func (m *Machine) Stats() kv.RemoteStats { return m.fetcher.Stats() }

// Holders returns the statistics of all holders fetched from, sorted by name.
func (m *Machine) Holders() []kv.HolderStats { return m.fetcher.Holders() }

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) end() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

package kv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	maxHolders = 256              // whose ways are remembered
	maxKnown   = 64 << 10         // blocks that are known to be elsewhere: twice as many at most
	knownFor   = 30 * time.Second // and twice as long
	latencies  = 16               // counts of a Holder
	leastFirst = 100 * time.Microsecond
)

// Elsewhere keeps account of blocks that other nodes hold and of the fetches that bring them, as a Tier does of slots. It is a value for one owner, who asks
// for the blocks and says when each fetch has ended. A block is known by its Short, within its space.
//
// A block is Resident while a holder is known to have it, Arriving while a fetch of it is under way or waits, and Absent else. Invariants, checked by the
// property test:
//
//   - bounded: no more than the capacity is under way, but for one fetch that is larger than it and then is alone
//   - in turn: fetches begin in the order in which they came
//   - ended: once no fetch is under way none waits, nothing is Arriving and nothing counts as under way
type Elsewhere struct {
	capacity int64
	most     int // fetches that wait
	flights  map[string]*flight
	waiting  []string // ids, the first that came first
	inFlight int64
	arriving map[uint64]int // block -> fetches of it
	known    [2]map[uint64]bool
	turned   time.Time // when known[0] was begun
	holders  map[string]*Holder
	stats    ElsewhereStats
}

// flight is a fetch that is under way or waits.
type flight struct {
	Flight
	begun bool
}

// Flight is a fetch of blocks from a holder.
type Flight struct {
	ID     string
	Holder string
	Blocks []uint64
	Bytes  int64
}

// Holder is what is known of one that has blocks, and of the way to it.
type Holder struct {
	Name, Node             string
	Link                   Link
	Fetches, Blocks, Bytes uint64
	Missed                 uint64            // blocks that did not come
	Latencies              [latencies]uint64 // fetches whose first bytes came within 100 µs, 200 µs, 400 µs, …; the last: all others
	Latency                time.Duration     // of all of these together
}

// ElsewhereStats count blocks, and fetches that were refused.
type ElsewhereStats struct {
	Resident, Arriving    int
	Flights, Waiting      int
	InFlight, Capacity    int64
	Hits, Misses, Refused uint64
	Bytes                 uint64
}

// NewElsewhere returns one that knows of no holder. So many bytes may be under way, and so many fetches wait.
func NewElsewhere(capacity int64, waiting int) *Elsewhere {
	return &Elsewhere{
		capacity: capacity, most: waiting, flights: make(map[string]*flight), arriving: make(map[uint64]int),
		known: [2]map[uint64]bool{{}, {}}, holders: make(map[string]*Holder),
	}
}

// Found says that a holder has these blocks.
func (e *Elsewhere) Found(blocks []uint64, now time.Time) {
	if now.Sub(e.turned) > knownFor || len(e.known[0])+len(blocks) > maxKnown {
		e.known[1], e.known[0], e.turned = e.known[0], make(map[uint64]bool), now
	}
	for _, b := range blocks {
		e.known[0][b] = true
	}
}

// State is how a block is: Resident with another holder, Arriving from there, or Absent.
func (e *Elsewhere) State(block uint64) State {
	switch {
	case e.arriving[block] > 0:
		return Arriving
	case e.known[0][block] || e.known[1][block]:
		return Resident
	}
	return Absent
}

// Begin takes a fetch, and returns those that are to begin now. It returns an error, and takes nothing, where too many wait. A fetch of
// the same id is no other one.
func (e *Elsewhere) Begin(f Flight) ([]Flight, error) {
	if e.flights[f.ID] != nil {
		return nil, nil
	}
	if len(e.waiting) >= e.most {
		e.stats.Refused++
		return nil, fmt.Errorf("%d of %d bytes are on their way, and %d fetches wait for room", e.inFlight, e.capacity, len(e.waiting))
	}
	e.flights[f.ID] = &flight{Flight: f}
	e.waiting = append(e.waiting, f.ID)
	for _, b := range f.Blocks {
		e.arriving[b]++
	}
	return e.next(), nil
}

// next are those of the waiting that there is room for, in turn.
func (e *Elsewhere) next() (begin []Flight) {
	for len(e.waiting) > 0 {
		f := e.flights[e.waiting[0]]
		if e.inFlight > 0 && e.inFlight+f.Bytes > e.capacity {
			break
		}
		e.waiting = e.waiting[1:]
		f.begun = true
		e.inFlight += f.Bytes
		begin = append(begin, f.Flight)
	}
	return begin
}

// End says that nothing comes of a fetch any more, and how many of its leading blocks its holder had. It returns those that are to begin now.
func (e *Elsewhere) End(id string, had int) []Flight {
	f := e.flights[id]
	if f == nil {
		return nil
	}
	delete(e.flights, id)
	for i, b := range f.Blocks {
		if e.arriving[b]--; e.arriving[b] == 0 {
			delete(e.arriving, b)
		}
		if f.begun && i >= had {
			delete(e.known[0], b)
			delete(e.known[1], b)
		}
	}
	if f.begun {
		e.inFlight -= f.Bytes
	} else {
		e.stats.Refused++
		e.waiting = slices.DeleteFunc(e.waiting, func(w string) bool { return w == id })
	}
	return e.next()
}

// Fetched takes what was measured on the way to a holder, of which so many blocks were wanted.
func (e *Elsewhere) Fetched(name, node string, wanted int, f Fetch, now time.Time) {
	h := e.holders[name]
	if h == nil {
		if len(e.holders) >= maxHolders {
			e.forget(now)
		}
		h = &Holder{Name: name, Node: node}
		e.holders[name] = h
	}
	h.Link.Add(f, now)
	bytes := uint64(f.Bytes)
	h.Fetches, h.Blocks, h.Bytes, h.Missed = h.Fetches+1, h.Blocks+uint64(f.Blocks), h.Bytes+bytes, h.Missed+uint64(wanted-f.Blocks)
	if f.Bytes > 0 {
		h.Latencies[latencyClass(f.First)]++
		h.Latency += f.First
	}
	e.stats.Hits, e.stats.Misses, e.stats.Bytes = e.stats.Hits+uint64(f.Blocks), e.stats.Misses+uint64(wanted-f.Blocks), e.stats.Bytes+bytes
}

// forget drops the holders whose ways would be measured anew, and all where there is none.
func (e *Elsewhere) forget(now time.Time) {
	maps.DeleteFunc(e.holders, func(_ string, h *Holder) bool { return !h.Link.Known(now) })
	if len(e.holders) >= maxHolders {
		clear(e.holders)
	}
}

func latencyClass(first time.Duration) (i int) {
	for limit := leastFirst; i < latencies-1 && first > limit; limit *= 2 {
		i++
	}
	return i
}

// LatencyBounds are the upper bounds of a Holder's Latencies, but for the last, which has none.
func LatencyBounds() (bounds []time.Duration) {
	for limit := leastFirst; len(bounds) < latencies-1; limit *= 2 {
		bounds = append(bounds, limit)
	}
	return bounds
}

// Path is the way to a holder as RestoreQuestion asks for it, with what is to come over it before.
func (e *Elsewhere) Path(name string, now time.Time) Path {
	var link Link
	if h := e.holders[name]; h != nil {
		link = h.Link
	}
	p := link.Path(name, now)
	for _, f := range e.flights {
		if f.Holder == name {
			p.Queued += f.Bytes
		}
	}
	return p
}

// Holders are those that were fetched from, by name.
func (e *Elsewhere) Holders() (all []Holder) {
	for _, h := range e.holders {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Stats describe it now.
func (e *Elsewhere) Stats() ElsewhereStats {
	s := e.stats
	s.Arriving, s.Flights, s.Waiting = len(e.arriving), len(e.flights)-len(e.waiting), len(e.waiting)
	s.InFlight, s.Capacity = e.inFlight, e.capacity
	for b := range e.known[0] {
		if e.arriving[b] == 0 {
			s.Resident++
		}
	}
	for b := range e.known[1] {
		if e.arriving[b] == 0 && !e.known[0][b] {
			s.Resident++
		}
	}
	return s
}

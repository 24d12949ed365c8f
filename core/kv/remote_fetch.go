package kv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// maxHolders limits the holders whose measurements are kept.
	maxHolders = 256
	// maxKnownPerSet limits the blocks in each of the two sets of blocks known to be elsewhere.
	maxKnownPerSet = 64 << 10
	// knownTTL is how long one of these sets accepts blocks before it is replaced. A block is known
	// for at most twice as long.
	knownTTL = 30 * time.Second
	// latencyBuckets is the number of buckets in HolderStats.Latencies.
	latencyBuckets = 16
	// firstLatencyBound is the upper bound of the first bucket; each further one doubles it.
	firstLatencyBound = 100 * time.Microsecond
)

// RemoteFetcher tracks the blocks that other nodes hold and the fetches that bring them, as a Tier
// tracks slots. Its owner carries out the fetches and reports when each has ended. A block is
// identified by its Fingerprint64, of the namespaced hash. A RemoteFetcher is not safe for
// concurrent use.
//
// A block is Resident while a holder is known to have it, Arriving while a fetch of it runs or
// waits, and Absent otherwise. Invariants, checked by the property test:
//
//   - bounded: at most capacity bytes are in flight; a single fetch larger than that runs alone
//   - ordered: fetches start in the order in which they were requested
//   - ended: when no fetch is in flight, none waits, nothing is Arriving and no bytes count as in
//     flight
type RemoteFetcher struct {
	capacity      int64
	maxWaiting    int // limit of len(waiting)
	fetches       map[string]*fetchState
	waiting       []string // ids, oldest first
	inFlightBytes int64
	arriving      map[uint64]int // number of fetches by block
	known         [2]map[uint64]bool
	rotated       time.Time // when known[0] was started
	holders       map[string]*HolderStats
	stats         RemoteStats
}

// fetchState is a fetch that is in flight or waits.
type fetchState struct {
	Fetch
	started bool
}

// Fetch is a fetch of blocks from a holder.
type Fetch struct {
	ID     string
	Holder string
	Blocks []uint64
	Bytes  int64
}

// HolderStats are the counters and measurements of one holder and the path to it.
type HolderStats struct {
	Name, Node             string
	Link                   LinkStats
	Fetches, Blocks, Bytes uint64
	Missed                 uint64                 // requested blocks that did not arrive
	Latencies              [latencyBuckets]uint64 // fetches by time to first byte; see LatencyBounds
	Latency                time.Duration          // sum of the times to first byte
}

// RemoteStats describe a RemoteFetcher. Hits and Misses count blocks, and Refused counts fetches.
type RemoteStats struct {
	Resident, Arriving           int
	Active, Waiting              int
	InFlightBytes, CapacityBytes int64
	Hits, Misses, Refused        uint64
	Bytes                        uint64
}

// NewRemoteFetcher returns a RemoteFetcher that knows no holder. capacity limits the bytes in
// flight, and waiting the number of fetches that wait.
func NewRemoteFetcher(capacity int64, waiting int) *RemoteFetcher {
	return &RemoteFetcher{
		capacity: capacity, maxWaiting: waiting, fetches: make(map[string]*fetchState), arriving: make(map[uint64]int),
		known: [2]map[uint64]bool{{}, {}}, holders: make(map[string]*HolderStats),
	}
}

// MarkAvailable records that a holder has these blocks.
func (e *RemoteFetcher) MarkAvailable(blocks []uint64, now time.Time) {
	if now.Sub(e.rotated) > knownTTL || len(e.known[0])+len(blocks) > maxKnownPerSet {
		e.known[1], e.known[0], e.rotated = e.known[0], make(map[uint64]bool), now
	}
	for _, b := range blocks {
		e.known[0][b] = true
	}
}

// Start queues a fetch and returns the fetches to start now. It returns an error if too many
// fetches wait. It ignores a fetch whose ID is already known.
func (e *RemoteFetcher) Start(f Fetch) ([]Fetch, error) {
	if e.fetches[f.ID] != nil {
		return nil, nil
	}
	if len(e.waiting) >= e.maxWaiting {
		e.stats.Refused++
		return nil, fmt.Errorf("remote fetch queue full: %d of %d bytes in flight, %d fetches waiting",
			e.inFlightBytes, e.capacity, len(e.waiting))
	}
	e.fetches[f.ID] = &fetchState{Fetch: f}
	e.waiting = append(e.waiting, f.ID)
	for _, b := range f.Blocks {
		e.arriving[b]++
	}
	return e.startReady(), nil
}

// startReady returns the waiting fetches that fit the capacity, in order.
func (e *RemoteFetcher) startReady() (begin []Fetch) {
	for len(e.waiting) > 0 {
		f := e.fetches[e.waiting[0]]
		if e.inFlightBytes > 0 && e.inFlightBytes+f.Bytes > e.capacity {
			break
		}
		e.waiting = e.waiting[1:]
		f.started = true
		e.inFlightBytes += f.Bytes
		begin = append(begin, f.Fetch)
	}
	return begin
}

// Finish ends a fetch, whose holder had the first had blocks. It returns the fetches to start now.
func (e *RemoteFetcher) Finish(id string, had int) []Fetch {
	f := e.fetches[id]
	if f == nil {
		return nil
	}
	delete(e.fetches, id)
	for i, b := range f.Blocks {
		if e.arriving[b]--; e.arriving[b] == 0 {
			delete(e.arriving, b)
		}
		if f.started && i >= had {
			delete(e.known[0], b)
			delete(e.known[1], b)
		}
	}
	if f.started {
		e.inFlightBytes -= f.Bytes
	} else {
		e.stats.Refused++
		e.waiting = slices.DeleteFunc(e.waiting, func(w string) bool { return w == id })
	}
	return e.startReady()
}

// Record adds the measurement of a fetch of wanted blocks from a holder.
func (e *RemoteFetcher) Record(name, node string, wanted int, f FetchSample, now time.Time) {
	h := e.holders[name]
	if h == nil {
		if len(e.holders) >= maxHolders {
			e.evictHolders(now)
		}
		h = &HolderStats{Name: name, Node: node}
		e.holders[name] = h
	}
	h.Link.Add(f, now)
	bytes := uint64(f.Bytes)
	h.Fetches, h.Blocks, h.Bytes = h.Fetches+1, h.Blocks+uint64(f.Blocks), h.Bytes+bytes
	h.Missed += uint64(wanted - f.Blocks)
	if f.Bytes > 0 {
		h.Latencies[latencyBucket(f.First)]++
		h.Latency += f.First
	}
	e.stats.Hits, e.stats.Misses = e.stats.Hits+uint64(f.Blocks), e.stats.Misses+uint64(wanted-f.Blocks)
	e.stats.Bytes += bytes
}

// evictHolders removes the holders whose measurements have expired, or all holders if none has.
func (e *RemoteFetcher) evictHolders(now time.Time) {
	maps.DeleteFunc(e.holders, func(_ string, h *HolderStats) bool { return !h.Link.Fresh(now) })
	if len(e.holders) >= maxHolders {
		clear(e.holders)
	}
}

func latencyBucket(first time.Duration) (i int) {
	for limit := firstLatencyBound; i < latencyBuckets-1 && first > limit; limit *= 2 {
		i++
	}
	return i
}

// LatencyBounds returns the upper bounds of the buckets in HolderStats.Latencies. The last bucket
// has no bound.
func LatencyBounds() (bounds []time.Duration) {
	for limit := firstLatencyBound; len(bounds) < latencyBuckets-1; limit *= 2 {
		bounds = append(bounds, limit)
	}
	return bounds
}

// Path returns the path to a holder for RestoreCost, including the bytes already requested from it.
func (e *RemoteFetcher) Path(name string, now time.Time) Path {
	var link LinkStats
	if h := e.holders[name]; h != nil {
		link = h.Link
	}
	p := link.Path(name, now)
	for _, f := range e.fetches {
		if f.Holder == name {
			p.Queued += f.Bytes
		}
	}
	return p
}

// Holders returns the statistics of all holders fetched from, sorted by name.
func (e *RemoteFetcher) Holders() (all []HolderStats) {
	for _, h := range e.holders {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b HolderStats) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Stats returns the current statistics.
func (e *RemoteFetcher) Stats() RemoteStats {
	s := e.stats
	s.Arriving, s.Active, s.Waiting = len(e.arriving), len(e.fetches)-len(e.waiting), len(e.waiting)
	s.InFlightBytes, s.CapacityBytes = e.inFlightBytes, e.capacity
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

package route

import (
	"slices"

	"troupe/core/backend"
)

// Replica is a replica's report about itself.
type Replica struct {
	Name         string
	Node         string
	State        State
	Faulty       bool // a step of it hangs, or it gave a wrong answer
	Running      int  // sequences in its batch
	Waiting      int  // sequences not admitted yet
	MaxSequences int  // limit of running sequences
	StepTokens   int  // token budget of a step
	BlockTokens  int
	KVBlocks     int    // 0: unknown and unbounded
	KVBlocksFree int    // empty or evictable
	Revision     string // digest of its files; empty: unknown
	// Adapters holds those that the replica need not read from disk, by name and revision. It is
	// not modified after Update.
	Adapters map[string]Residence
	Lacks    backend.Set // what its backend cannot do
}

// Residence is where a replica has an adapter.
type Residence uint8

const (
	OnDisk Residence = iota
	InDRAM
	OnGPU
	NoAdapter // the request needs no adapter
)

// State is the state of a replica.
type State uint8

const (
	Loading State = iota
	Serving
	Suspended // on standby, or on the way there
	Draining
	Failed
)

// Request is a prompt to be routed.
type Request struct {
	ID     string
	Hashes []uint64 // of its full blocks from the start: the first 8 bytes of each chained hash, big-endian
	Tokens int      // of the prompt and of the output so far
	Avoid  []string // replicas that failed it; used only if no other replica serves
	// Adapter is the name and revision of the adapter that it needs; empty: none.
	Adapter string
	// Revision is the digest of the files that computed its output so far; empty: any. A request with
	// output is also finished by a replica on standby, if none serves.
	Revision string
}

// Routes is the routing table of one model: its replicas, their loads and their blocks. It is not
// safe for concurrent use.
type Routes struct {
	slots       []slot
	byName      map[string]int // slot by replica
	index       slotIndex
	meanPrefill float64 // running mean of the prompt tokens that routed requests had to compute
	weights     Weights

	live  []uint64 // scratch memory of Route
	depth []int
	best  []ranked
}

// slot is a replica's entry in the table. Its number is its bit in the index.
type slot struct {
	Replica
	used         bool
	salt         uint64    // hash of its name, to break ties
	excluded     Exclusion // scratch memory of Route
	routed       int       // requests sent there since its last report
	routedTokens int       // prompt tokens that these requests compute
	loading      []string  // adapters that these requests need and that were on disk
}

// NewRoutes returns an empty table.
func NewRoutes() *Routes {
	return &Routes{
		byName: make(map[string]int), index: newSlotIndex(), live: make([]uint64, 1), depth: make([]int, 64),
		meanPrefill: float64(DefaultWeights.DefaultTokens), weights: DefaultWeights,
	}
}

// Update applies a replica's report. Requests routed there since the last report are assumed to be
// part of it and no longer counted separately.
func (t *Routes) Update(r Replica) {
	s, ok := t.byName[r.Name]
	if !ok {
		s = slices.IndexFunc(t.slots, func(s slot) bool { return !s.used })
		if s < 0 {
			s = len(t.slots)
			t.slots = append(t.slots, slot{})
			t.index.growSlots(len(t.slots))
			t.live = make([]uint64, t.index.width)
			t.depth = make([]int, 64*t.index.width)
		}
		t.byName[r.Name] = s
	}
	t.slots[s] = slot{Replica: r, used: true, salt: hashOf(r.Name)}
}

// Remove deletes a replica and its blocks.
func (t *Routes) Remove(name string) {
	if s, ok := t.byName[name]; ok {
		delete(t.byName, name)
		t.slots[s] = slot{}
		t.index.removeSlot(s)
	}
}

// UpdateBlocks applies the changes in a replica's blocks, evictions first. It ignores a replica
// without a report, and one whose backend reports no blocks.
func (t *Routes) UpdateBlocks(name string, evicted, committed []uint64) {
	s, ok := t.byName[name]
	if !ok || t.slots[s].Lacks.Has(backend.KVEvents) {
		return
	}
	for _, b := range evicted {
		t.index.remove(s, b)
	}
	for _, b := range committed {
		t.index.add(s, b)
	}
}

// ResetBlocks applies a snapshot: committed are all blocks that the replica holds.
func (t *Routes) ResetBlocks(name string, committed []uint64) {
	if s, ok := t.byName[name]; ok {
		t.index.removeSlot(s)
		t.UpdateBlocks(name, nil, committed)
	}
}

// BlocksOf returns the blocks of a replica, in no particular order, as in a snapshot.
func (t *Routes) BlocksOf(name string) []uint64 {
	if s, ok := t.byName[name]; ok {
		return t.index.blocks(s)
	}
	return nil
}

// HasRevision reports whether a replica loaded the files of a revision.
func (t *Routes) HasRevision(revision string) bool {
	return slices.ContainsFunc(t.slots, func(s slot) bool { return s.used && s.Revision == revision })
}

// Route chooses the replica with the lowest cost (see the package's comment) and counts the request
// as sent there. A hash of request and replica breaks ties, so that they spread evenly and every
// router decides the same.
func (t *Routes) Route(r Request) Decision {
	fair := t.exclude(r)
	t.index.match(r.Hashes, t.live, t.depth)
	d, id := Decision{Tokens: r.Tokens, Adapter: r.Adapter}, hashOf(r.ID)
	best := t.best[:0]
	for i := range t.slots {
		s := &t.slots[i]
		if !s.used {
			continue
		}
		c := ranked{
			slot: i, excluded: s.excluded, cost: t.cost(s, r.Tokens, t.depth[i]) + t.adapterCost(s, r.Adapter),
			tie: mix(id ^ s.salt),
		}
		if c.excluded == Eligible && float64(s.load()) > fair+float64(s.MaxSequences)*t.weights.ShareSlack {
			c.excluded = OverShare
		}
		d.Counts[c.excluded]++
		best = insertTop(best, c)
	}
	t.best = best
	t.choose(&d, best)
	return d
}

// exclude sets the exclusion of each slot, marks as live those whose blocks matter, and returns the
// fair share: ShareFactor times the mean load of the eligible replicas.
func (t *Routes) exclude(r Request) float64 {
	clear(t.live)
	clear(t.depth)
	var load, eligible int
	for i := range t.slots {
		s := &t.slots[i]
		switch s.excluded = s.exclusion(r); s.excluded {
		case Eligible:
			load += s.load()
			eligible++
			fallthrough
		case Avoided, Finishes:
			t.live[i/64] |= 1 << (i % 64)
		}
	}
	return t.weights.ShareFactor * float64(load) / float64(max(1, eligible))
}

// choose takes the first of the ranked replicas if it may be chosen.
func (t *Routes) choose(d *Decision, best []ranked) {
	d.Candidates = make([]Candidate, len(best))
	for i, c := range best {
		d.Candidates[i] = t.candidate(c, d.Tokens, d.Adapter)
	}
	if len(best) == 0 || best[0].excluded > Finishes {
		return
	}
	d.Name, d.OK = d.Candidates[0].Name, true
	s, prefill := &t.slots[best[0].slot], d.Candidates[0].Prefill
	s.routed++
	s.routedTokens += prefill
	if d.Candidates[0].Adapter == OnDisk && !slices.Contains(s.loading, d.Adapter) {
		s.loading = append(s.loading, d.Adapter)
	}
	t.meanPrefill += (float64(prefill) - t.meanPrefill) / meanWindow
}

// ranked is a replica in the order of preference.
type ranked struct {
	slot, cost int
	excluded   Exclusion
	tie        uint64
}

func (a *ranked) before(b *ranked) bool {
	switch {
	case a.excluded != b.excluded:
		return a.excluded < b.excluded
	case a.cost != b.cost:
		return a.cost < b.cost
	}
	return a.tie < b.tie
}

// insertTop inserts c into the sorted list of the best maxCandidates.
func insertTop(best []ranked, c ranked) []ranked {
	if len(best) < maxCandidates {
		best = append(best, c)
	} else if !c.before(&best[maxCandidates-1]) {
		return best
	}
	i := len(best) - 1
	for ; i > 0 && c.before(&best[i-1]); i-- {
		best[i] = best[i-1]
	}
	best[i] = c
	return best
}

// hashOf returns the FNV-1a hash, which is the same in every process.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads every bit of h over all bits (the finalizer of splitmix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

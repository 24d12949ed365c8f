package route

import "slices"

// Replica is what a replica reported of itself.
type Replica struct {
	Name         string
	Node         string
	State        State
	Running      int // sequences in its batch
	Waiting      int // sequences not admitted yet
	MaxSequences int // running at once
	StepTokens   int // token budget of a step
	BlockTokens  int
	KVBlocks     int    // 0: unknown, and then no bound
	KVBlocksFree int    // empty or evictable
	Revision     string // digest of its files; empty: not known
	// Adapters are those that it need not read from disk, by name and revision. It is not changed once it is reported.
	Adapters map[string]Residence
}

// Residence is where a replica has an adapter.
type Residence uint8

const (
	OnDisk Residence = iota
	InDRAM
	OnGPU
	NoAdapter // none is asked for
)

// State is whether a replica takes requests.
type State uint8

const (
	Loading State = iota
	Serving
	Draining
	Failed
)

// Request is a prompt to be routed.
type Request struct {
	ID     string
	Hashes []uint64 // of its full blocks from the start, each the first 8 bytes of a chained hash, big-endian
	Tokens int      // of the prompt, with what was emitted already
	Avoid  []string // replicas that failed it; they are taken only where no other serves
	// Adapter is the name and revision of the one that it needs; empty: none.
	Adapter string
	// Revision is the digest of the files that computed its output so far; empty: any will do.
	Revision string
}

// Routes is one model's routing table: its replicas, how loaded they are and which blocks they hold. It is a value for one
// owner and not safe for concurrent use.
type Routes struct {
	slots       []slot
	byName      map[string]int // replica -> its slot
	index       slotIndex
	meanPrefill float64 // prompt tokens that a request has to compute: a running mean over those routed

	live  []uint64 // scratch of Route
	depth []int
	best  []ranked
}

// slot is a replica's place in the table; its number is its bit in the index.
type slot struct {
	Replica
	used         bool
	salt         uint64    // of its name, to break ties
	excluded     Exclusion // scratch of Route
	routed       int       // requests sent there since it last reported
	routedTokens int       // prompt tokens that they have to compute
	loading      []string  // adapters that they need and that were not there
}

// NewRoutes returns an empty table.
func NewRoutes() *Routes {
	return &Routes{
		byName: make(map[string]int), index: newSlotIndex(), meanPrefill: defaultTokens, live: make([]uint64, 1),
		depth: make([]int, 64),
	}
}

// Update takes a replica's report. What was routed there since the last one is in it, as far as is known, and no longer
// counted on top.
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

// Remove forgets a replica and its blocks.
func (t *Routes) Remove(name string) {
	if s, ok := t.byName[name]; ok {
		delete(t.byName, name)
		t.slots[s] = slot{}
		t.index.removeSlot(s)
	}
}

// UpdateBlocks takes what changed in a replica's blocks; evicted goes first. A replica that was never reported is passed over.
func (t *Routes) UpdateBlocks(name string, evicted, committed []uint64) {
	s, ok := t.byName[name]
	if !ok {
		return
	}
	for _, b := range evicted {
		t.index.remove(s, b)
	}
	for _, b := range committed {
		t.index.add(s, b)
	}
}

// ResetBlocks takes a snapshot: these are all the blocks that a replica holds.
func (t *Routes) ResetBlocks(name string, committed []uint64) {
	if s, ok := t.byName[name]; ok {
		t.index.removeSlot(s)
		t.UpdateBlocks(name, nil, committed)
	}
}

// BlocksOf returns the blocks of a replica, in no order: what a snapshot of it tells.
func (t *Routes) BlocksOf(name string) []uint64 {
	if s, ok := t.byName[name]; ok {
		return t.index.blocks(s)
	}
	return nil
}

// HasRevision reports whether a replica has loaded files of a revision.
func (t *Routes) HasRevision(revision string) bool {
	return slices.ContainsFunc(t.slots, func(s slot) bool { return s.used && s.Revision == revision })
}

// Replicas is how many are known.
func (t *Routes) Replicas() int { return len(t.byName) }

// Route chooses the replica where the first token costs least (see the package's comment), and counts the request as
// sent there. Ties go by a hash of request and replica: evenly, and the same way in every router.
func (t *Routes) Route(r Request) Decision {
	fair := t.exclude(r)
	t.index.match(r.Hashes, t.live, t.depth)
	d, id := Decision{ID: r.ID, Tokens: r.Tokens, Adapter: r.Adapter}, hashOf(r.ID)
	best := t.best[:0]
	for i := range t.slots {
		s := &t.slots[i]
		if !s.used {
			continue
		}
		c := ranked{
			slot: i, excluded: s.excluded, cost: t.cost(s, r.Tokens, t.depth[i]) + s.adapterCost(r.Adapter), tie: mix(id ^ s.salt),
		}
		if c.excluded == Eligible && float64(s.load()) > fair+float64(s.MaxSequences)*shareSlack {
			c.excluded = OverShare
		}
		d.Counts[c.excluded]++
		best = insertTop(best, c)
	}
	t.best = best
	t.choose(&d, best)
	return d
}

// screen says of each slot whether it may be chosen, marks as live those whose blocks matter, and returns the fair share:
// shareFactor times the mean load of the eligible.
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
		case Avoided:
			t.live[i/64] |= 1 << (i % 64)
		}
	}
	return shareFactor * float64(load) / float64(max(1, eligible))
}

// decide takes the first of the order, where it may be chosen.
func (t *Routes) choose(d *Decision, best []ranked) {
	d.Candidates = make([]Candidate, len(best))
	for i, c := range best {
		d.Candidates[i] = t.candidate(c, d.Tokens, d.Adapter)
	}
	if len(best) == 0 || best[0].excluded > Avoided {
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

// keep inserts c into the order, of which only the first maxCandidates are of interest.
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

// hashOf is FNV-1a: the same in every process.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads every bit of h over all of them (the finalizer of splitmix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

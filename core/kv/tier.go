package kv

import (
	"fmt"
	"slices"
)

// State is the state of a block in a tier.
type State uint8

// States.
const (
	Absent   State = iota
	Arriving       // its slot is being written
	Resident       // it can be read
	Leaving        // it is being copied to the tier below and is gone afterwards
)

func (s State) String() string { return [...]string{"absent", "arriving", "resident", "leaving"}[s] }

// DefaultWatermark is the share of HBM, and of a tier, above which blocks leave ahead of need.
const DefaultWatermark = 0.9

// TierLimits configure a tier.
type TierLimits struct {
	Slabs Slabs
	// Watermark is the share of the slots above which blocks leave ahead of need; 0:
	// DefaultWatermark.
	Watermark float64
	// IdleSteps is the number of steps after which an unused block leaves; 0: never.
	IdleSteps uint64
	// Burst limits the blocks leaving at once; 0: a sixteenth of the blocks of that size that the
	// tier could hold.
	Burst int
	// MaxDemoteBytes is the size of the largest block that the tier below can store; 0: no limit.
	MaxDemoteBytes int
}

// Tier tracks the slots of one tier: which block each holds and which copies read it. Its owner
// carries out the copies and reports when each has ended. A copy is identified by its slot. A Tier
// is not safe for concurrent use.
//
// Blocks of different sizes share the tier by slabs. A size that needs a slot takes, in this order:
// a free slot of its own; an empty slab; a slab of another size; or the slot of its own block that
// the Policy selects. It takes another size's slab only if none of its blocks has to stay and they
// were, on average, last used before any block of the needing size. The comparison does not use the
// policy's victim: that may be a block that arrived just now, and two sizes would then take the
// same slab from each other forever.
type Tier struct {
	limits         TierLimits
	policy         func(slots int) Policy
	slabs          []slab
	sizes          map[int]*sizeClass // by block size in bytes
	byHash         map[Hash]int32     // all blocks that are not Absent
	pins           map[Hash]int       // number of pins by block, whether or not it is present
	leaving        int                // blocks that are Leaving
	lowerAvailable bool               // the tier below accepts blocks
	step           uint64
	useCount       uint64 // uses of blocks so far; the clock of lastUse
	stats          TierStats

	evicted   []int32 // since the last Changes
	committed []Committed
}

// slot holds one block. It is free if state is Absent and copies is 0.
type slot struct {
	hash     Hash
	state    State
	copies   int    // copies out of the slot in flight
	usedStep uint64 // step of the last use
	lastUse  uint64 // useCount at the last use; 0: the slot holds nothing readable
}

func (s *slot) free() bool { return s.state == Absent && s.copies == 0 }

// NewTier returns an empty tier with the named eviction policy.
func NewTier(limits TierLimits, policy string) (*Tier, error) {
	if _, err := NewPolicy(policy, 1); err != nil {
		return nil, err
	}
	if limits.Watermark == 0 {
		limits.Watermark = DefaultWatermark
	}
	return &Tier{
		limits: limits, policy: policies[policy], slabs: make([]slab, limits.Slabs.Count),
		sizes: make(map[int]*sizeClass), byHash: make(map[Hash]int32), pins: make(map[Hash]int),
	}, nil
}

// State returns the state of a block.
func (t *Tier) State(h Hash) State {
	if i, ok := t.byHash[h]; ok {
		_, s := t.at(i)
		return s.state
	}
	return Absent
}

// Match returns how many of the leading blocks are Resident or Leaving.
func (t *Tier) Match(hashes []Hash) int {
	for i, h := range hashes {
		if s := t.State(h); s != Resident && s != Leaving {
			return i
		}
	}
	return len(hashes)
}

// Lookup records that a prompt uses these blocks and returns how many of the leading ones can be
// read. It cancels the demotion of those that were Leaving.
func (t *Tier) Lookup(hashes []Hash) int {
	n := t.Match(hashes)
	t.stats.Hits += uint64(n)
	t.stats.Misses += uint64(len(hashes) - n)
	t.Touch(hashes[:n])
	return n
}

// Touch marks blocks of this tier as used without counting a lookup. The tier above calls it when
// it evicts blocks that it expects to find here.
func (t *Tier) Touch(hashes []Hash) {
	for _, h := range slices.Backward(hashes) {
		slab, s := t.at(t.byHash[h])
		if s.state == Leaving {
			t.stats.Reclaimed++
			t.cancelDemotion(slab, s)
		}
		slab.class.policy.Use(s.hash)
		t.markUsed(slab, s)
	}
}

// cancelDemotion makes a leaving block Resident again. It does not count as a use.
func (t *Tier) cancelDemotion(in *slab, s *slot) {
	t.leaving--
	in.class.leaving--
	s.state, s.usedStep = Resident, t.step
	in.class.policy.Add(s.hash)
	in.class.recent.push(s.hash)
}

// makeResident makes a block Resident and counts as a use.
func (t *Tier) makeResident(in *slab, s *slot) {
	s.state = Resident
	in.class.policy.Add(s.hash)
	t.markUsed(in, s)
}

// markUsed makes a resident block the most recently used.
func (t *Tier) markUsed(in *slab, s *slot) {
	t.useCount++
	in.lastUseSum += t.useCount - s.lastUse
	s.lastUse, s.usedStep = t.useCount, t.step
	in.class.recent.push(s.hash)
}

// Dropped is a block that was discarded, and the reason.
type Dropped struct {
	Hash Hash
	Slot int32
	Why  string
}

// Reserve gives an Absent block a slot to write to. The block is Arriving until Commit or Abort. If
// no slot is free, Reserve drops the next victim of that size or the blocks of a slab. It reports
// false if nothing can be dropped or blocks of that size do not fit.
func (t *Tier) Reserve(h Hash, bytes int) (slot int32, dropped []Dropped, ok bool) {
	if t.State(h) != Absent {
		panic(fmt.Sprintf("kv: reserve of a block that is %s", t.State(h)))
	}
	if t.limits.Slabs.Fit(bytes) == 0 {
		return 0, nil, false
	}
	z := t.sizeClassOf(bytes)
	if slot, ok = t.takeFree(z); !ok {
		dropped = t.makeRoom(z)
		if slot, ok = t.takeFree(z); !ok {
			return 0, dropped, false
		}
	}
	_, s := t.at(slot)
	s.hash, s.state = h, Arriving
	t.byHash[h] = slot
	return slot, dropped, true
}

// replaceable reports whether a resident block may be dropped for another of its size.
func (t *Tier) replaceable(h Hash) bool {
	in, _ := t.at(t.byHash[h])
	return in.newOwner == nil && t.evictable(h)
}

// evictable reports whether a resident block has no copies in flight and no pins.
func (t *Tier) evictable(h Hash) bool { return t.uncopied(h) && t.pins[h] == 0 }

// uncopied reports whether a resident block has no copies in flight.
func (t *Tier) uncopied(h Hash) bool {
	_, s := t.at(t.byHash[h])
	return s.copies == 0
}

// pinnedEvictable reports whether a resident block has pins and no copies in flight.
func (t *Tier) pinnedEvictable(h Hash) bool { return t.uncopied(h) && t.pins[h] > 0 }

// Commit marks an arriving block as complete.
func (t *Tier) Commit(slot int32) {
	slab, s := t.mustBe(slot, Arriving)
	t.stats.Arrivals++
	t.committed = append(t.committed, Committed{slot, s.hash})
	t.makeResident(slab, s)
}

// Abort gives up an arriving block. Nothing may write to its slot afterwards.
func (t *Tier) Abort(slot int32) {
	t.mustBe(slot, Arriving)
	t.clear(slot)
}

// Recover adopts a block that an earlier incarnation left in a free slot. It reports false and does
// nothing if the slot is not free, does not exist or belongs to another size, or if the block is
// already present.
func (t *Tier) Recover(slot int32, h Hash, bytes int) bool {
	if t.State(h) != Absent || !t.limits.Slabs.Has(slot, bytes) {
		return false
	}
	i, nth := t.limits.Slabs.Locate(slot)
	in, z := &t.slabs[i], t.sizeClassOf(bytes)
	if in.class == nil {
		t.assign(i, z)
	}
	if in.class != z || !in.slots[nth].free() {
		return false
	}
	s := &in.slots[nth]
	t.occupy(in)
	s.hash = h
	t.byHash[h] = slot
	t.committed = append(t.committed, Committed{slot, h})
	t.makeResident(in, s)
	return true
}

// Read starts a copy of a block out of its slot, whose bytes do not change until Done. It reports
// false if the block is not Resident.
func (t *Tier) Read(h Hash) (slot int32, ok bool) {
	slot, ok = t.byHash[h]
	if !ok || t.State(h) != Resident {
		return 0, false
	}
	_, s := t.at(slot)
	s.copies++
	return slot, true
}

// Done ends a copy started by Read.
func (t *Tier) Done(slot int32) {
	in, s := t.at(slot)
	if s.copies == 0 {
		panic("kv: Done without Read")
	}
	if s.copies--; s.free() {
		t.release(in, slot)
	}
}

// Drop discards a block, by decision or because it is damaged. Its slot is freed when no copy out
// of it is in flight. It reports false if the block is Absent or Arriving.
func (t *Tier) Drop(h Hash) bool {
	if s := t.State(h); s == Absent || s == Arriving {
		return false
	}
	t.stats.Drops++
	t.clear(t.byHash[h])
	return true
}

// Flush drops all Resident blocks that are not pinned or being copied. Their slots stay reserved
// until Done, so that the caller can erase the contents.
func (t *Tier) Flush() (slots []int32) {
	for _, z := range t.sizeClasses() {
		for h, ok := z.recent.oldest(t.evictable); ok; h, ok = z.recent.oldest(t.evictable) {
			slot, _ := t.Read(h)
			t.Drop(h)
			slots = append(slots, slot)
		}
	}
	return slots
}

// clear makes a slot Absent, and frees it if no copy out of it is in flight.
func (t *Tier) clear(slot int32) {
	in, s := t.at(slot)
	delete(t.byHash, s.hash)
	if s.state == Leaving {
		t.leaving--
		in.class.leaving--
	}
	if s.state != Arriving {
		t.evicted = append(t.evicted, slot)
	}
	in.class.policy.Remove(s.hash)
	in.class.recent.remove(s.hash)
	in.lastUseSum -= s.lastUse
	s.lastUse = 0
	if s.state = Absent; s.free() {
		t.release(in, slot)
	}
}

// mustBe returns a slot and its slab. It panics if the slot is not in the wanted state.
func (t *Tier) mustBe(slot int32, want State) (*slab, *slot) {
	slab, s := t.at(slot)
	if s.state != want {
		panic(fmt.Sprintf("kv: slot %d is %s, not %s", slot, s.state, want))
	}
	return slab, s
}

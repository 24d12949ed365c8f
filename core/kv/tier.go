package kv

import (
	"fmt"
	"slices"
)

// State is how a block is in a tier.
type State uint8

// States.
const (
	Absent   State = iota
	Arriving       // its slot is being written
	Resident       // it can be read
	Leaving        // it is being copied down a tier, and gone when that is done
)

func (s State) String() string { return [...]string{"absent", "arriving", "resident", "leaving"}[s] }

// DefaultWatermark is the share of HBM, and of a tier, above which blocks leave ahead of need.
const DefaultWatermark = 0.9

// TierLimits bound a tier.
type TierLimits struct {
	Slabs     Slabs
	Watermark float64 // share of the slots above which blocks leave ahead of need; 0: DefaultWatermark
	IdleSteps uint64  // a block that nobody wanted for so many steps leaves; 0: none does
	Burst     int     // blocks leaving at once, at most; 0: a sixteenth of those of a size that the tier could hold
	Below     int     // bytes of the largest block that can leave, since the tier below has room for it; 0: all can
}

// Tier keeps account of one tier's slots: which block is in which, and who uses it. It is a value for one owner, who carries out
// the copies and says when each has ended. A copy is known by its slot.
//
// Blocks of different sizes share the tier slab by slab. A size that needs a slot takes one of its own that is free; else an empty slab; else another one, if
// the blocks there were on average wanted longer ago than any block of this size, and none of them has to stay; else it gives up a block of its own, and
// which one the Policy decides. The policy's choice is not what a slab is compared with: that may be a block that came just now,
// and two sizes would take the same slab from each other for ever.
type Tier struct {
	limits   TierLimits
	policy   func(slots int) Policy
	slabs    []slab
	sizes    map[int]*size  // by bytes of a block
	byHash   map[Hash]int32 // all but those that are Absent
	pins     map[Hash]int   // of blocks, whether they are here or not
	leaves   int            // blocks Leaving
	cascades bool           // the tier below takes blocks
	step     uint64
	wants    uint64 // so far
	stats    TierStats

	evicted   []int32 // since the last Changes
	committed []Committed
}

// slot is a place for one block. It is free where state is Absent and copies is 0.
type slot struct {
	hash   Hash
	state  State
	copies int    // out of it, under way
	used   uint64 // the step in which it was last wanted
	wanted uint64 // which of all wants that was; 0: it holds nothing that can be read
}

func (s *slot) free() bool { return s.state == Absent && s.copies == 0 }

// NewTier returns an empty tier that evicts by the policy of that name.
func NewTier(limits TierLimits, policy string) (*Tier, error) {
	if _, err := NewPolicy(policy, 1); err != nil {
		return nil, err
	}
	if limits.Watermark == 0 {
		limits.Watermark = DefaultWatermark
	}
	return &Tier{
		limits: limits, policy: policies[policy], slabs: make([]slab, limits.Slabs.Count), sizes: make(map[int]*size), byHash: make(map[Hash]int32),
		pins: make(map[Hash]int),
	}, nil
}

// State is how a block is here.
func (t *Tier) State(h Hash) State {
	if i, ok := t.byHash[h]; ok {
		_, s := t.at(i)
		return s.state
	}
	return Absent
}

// Match returns how many of the leading blocks can be read, or could as soon as they are wanted.
func (t *Tier) Match(hashes []Hash) int {
	for i, h := range hashes {
		if s := t.State(h); s != Resident && s != Leaving {
			return i
		}
	}
	return len(hashes)
}

// Want says that a prompt with these blocks came, and returns how many of the leading ones can now be read. Those that were leaving are kept.
func (t *Tier) Want(hashes []Hash) int {
	n := t.Match(hashes)
	t.stats.Hits += uint64(n)
	t.stats.Misses += uint64(len(hashes) - n)
	t.Keep(hashes[:n])
	return n
}

// Keep is Want of blocks that are here, and that no prompt wanted: a tier above gives them up, and relies on them.
func (t *Tier) Keep(hashes []Hash) {
	for _, h := range slices.Backward(hashes) {
		slab, s := t.at(t.byHash[h])
		if s.state == Leaving {
			t.stats.Kept++
			t.stay(slab, s)
		}
		slab.size.policy.Use(s.hash)
		t.touch(slab, s)
	}
}

// stay makes a leaving block resident again. It is not wanted for that.
func (t *Tier) stay(in *slab, s *slot) {
	t.leaves--
	in.size.leaves--
	s.state, s.used = Resident, t.step
	in.size.policy.Add(s.hash)
	in.size.recent.push(s.hash)
}

// settle makes a block resident.
func (t *Tier) settle(in *slab, s *slot) {
	s.state = Resident
	in.size.policy.Add(s.hash)
	t.touch(in, s)
}

// touch makes a resident block the one that was wanted last.
func (t *Tier) touch(in *slab, s *slot) {
	t.wants++
	in.wanted += t.wants - s.wanted
	s.wanted, s.used = t.wants, t.step
	in.size.recent.push(s.hash)
}

// Dropped is a block that was given up, and why.
type Dropped struct {
	Hash Hash
	Slot int32
	Why  string
}

// Reserve gives a block that is Absent a slot to be written to: it is Arriving until Commit or Abort. Where none is free, the
// block of its size that would leave next is dropped for it, or those of a slab; it reports false where none can be, or blocks of
// that size do not fit.
func (t *Tier) Reserve(h Hash, bytes int) (slot int32, dropped []Dropped, ok bool) {
	if t.State(h) != Absent {
		panic(fmt.Sprintf("kv: reserve of a block that is %s", t.State(h)))
	}
	if t.limits.Slabs.Fit(bytes) == 0 {
		return 0, nil, false
	}
	z := t.sizeOf(bytes)
	if slot, ok = t.take(z); !ok {
		dropped = t.makeRoom(z)
		if slot, ok = t.take(z); !ok {
			return 0, dropped, false
		}
	}
	_, s := t.at(slot)
	s.hash, s.state = h, Arriving
	t.byHash[h] = slot
	return slot, dropped, true
}

// replaceable reports whether a resident block may go for another one of its size.
func (t *Tier) replaceable(h Hash) bool {
	in, _ := t.at(t.byHash[h])
	return in.heir == nil && t.idle(h)
}

// idle reports whether a resident block may go: nobody copies it, and it is not pinned.
func (t *Tier) idle(h Hash) bool { return t.unread(h) && t.pins[h] == 0 }

// unread reports whether nobody copies a resident block.
func (t *Tier) unread(h Hash) bool {
	_, s := t.at(t.byHash[h])
	return s.copies == 0
}

// pinned reports whether nobody copies a resident block, and it is pinned.
func (t *Tier) pinned(h Hash) bool { return t.unread(h) && t.pins[h] > 0 }

// Commit says that an arriving block is all there.
func (t *Tier) Commit(slot int32) {
	slab, s := t.in(slot, Arriving)
	t.stats.Arrivals++
	t.committed = append(t.committed, Committed{slot, s.hash})
	t.settle(slab, s)
}

// Abort says that an arriving block will not come, and that nothing writes to its slot any more.
func (t *Tier) Abort(slot int32) {
	t.in(slot, Arriving)
	t.clear(slot)
}

// Restore says that a free slot holds a block: what an earlier life left there. It reports false, and does nothing, where the slot
// is not free, does not exist or is in a slab for blocks of another size, or the block is here already.
func (t *Tier) Restore(slot int32, h Hash, bytes int) bool {
	if t.State(h) != Absent || !t.limits.Slabs.Has(slot, bytes) {
		return false
	}
	i, nth := t.limits.Slabs.Of(slot)
	in, z := &t.slabs[i], t.sizeOf(bytes)
	if in.size == nil {
		t.give(i, z)
	}
	if in.size != z || !in.slots[nth].free() {
		return false
	}
	s := &in.slots[nth]
	t.occupy(in)
	s.hash = h
	t.byHash[h] = slot
	t.committed = append(t.committed, Committed{slot, h})
	t.settle(in, s)
	return true
}

// Read begins a copy of a block out of its slot, which stays what it is until Done. It reports false where it is not Resident.
func (t *Tier) Read(h Hash) (slot int32, ok bool) {
	slot, ok = t.byHash[h]
	if !ok || t.State(h) != Resident {
		return 0, false
	}
	_, s := t.at(slot)
	s.copies++
	return slot, true
}

// Done ends a copy that Read began.
func (t *Tier) Done(slot int32) {
	in, s := t.at(slot)
	if s.copies == 0 {
		panic("kv: end of a copy that did not begin")
	}
	if s.copies--; s.free() {
		t.release(in, slot)
	}
}

// Drop gives a block up: by decision, or because it is damaged. Its slot is free when no copy out of it is under way. It reports false
// where the block can not be read, and so not be dropped.
func (t *Tier) Drop(h Hash) bool {
	if s := t.State(h); s == Absent || s == Arriving {
		return false
	}
	t.stats.Drops++
	t.clear(t.byHash[h])
	return true
}

// Flush drops all blocks that can be read, but those that are pinned or being copied. Their slots are not free until Done, so that what is
// in them can be erased.
func (t *Tier) Flush() (slots []int32) {
	for _, z := range t.bySize() {
		for h, ok := z.recent.oldest(t.idle); ok; h, ok = z.recent.oldest(t.idle) {
			slot, _ := t.Read(h)
			t.Drop(h)
			slots = append(slots, slot)
		}
	}
	return slots
}

// clear makes a slot Absent, and free if nothing is copied out of it.
func (t *Tier) clear(slot int32) {
	in, s := t.at(slot)
	delete(t.byHash, s.hash)
	if s.state == Leaving {
		t.leaves--
		in.size.leaves--
	}
	if s.state != Arriving {
		t.evicted = append(t.evicted, slot)
	}
	in.size.policy.Remove(s.hash)
	in.size.recent.remove(s.hash)
	in.wanted -= s.wanted
	s.wanted = 0
	if s.state = Absent; s.free() {
		t.release(in, slot)
	}
}

func (t *Tier) in(slot int32, want State) (*slab, *slot) {
	slab, s := t.at(slot)
	if s.state != want {
		panic(fmt.Sprintf("kv: slot %d is %s, not %s", slot, s.state, want))
	}
	return slab, s
}

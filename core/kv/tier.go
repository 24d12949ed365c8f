package kv

import "fmt"

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
	Slots     int
	Watermark float64 // share of the slots above which blocks leave ahead of need; 0: DefaultWatermark
	IdleSteps uint64  // a block that nobody wanted for so many steps leaves; 0: none does
	Burst     int     // blocks leaving at once, at most; 0: a sixteenth of the slots
}

func (l TierLimits) filled() TierLimits {
	if l.Watermark == 0 {
		l.Watermark = DefaultWatermark
	}
	if l.Burst == 0 {
		l.Burst = max(1, l.Slots/16)
	}
	return l
}

// Tier keeps account of one tier's slots: which block is in which, and who uses it. It is a value for one owner, who carries out
// the copies and says when each has ended. A copy is known by its slot.
type Tier struct {
	limits TierLimits
	policy Policy
	slots  []slot
	byHash map[Hash]int32 // all but those that are Absent
	free   []int32        // a stack
	recent order          // resident blocks, the one wanted longest ago first
	pins   map[Hash]int   // of blocks, whether they are here or not
	leaves int            // blocks Leaving
	step   uint64
	stats  TierStats

	evicted   []int32 // since the last Changes
	committed []Committed
}

// slot is a place for one block. It is free where state is Absent and copies is 0.
type slot struct {
	hash   Hash
	state  State
	copies int // out of it, under way
	uses   int
	used   uint64 // the step in which it was last wanted
}

// TierStats describe a tier.
type TierStats struct {
	Slots, Free, Arriving, Resident, Leaving, Pinned int
	Hits, Misses                                     uint64 // blocks that were wanted
	Arrivals, Departures, Drops, Kept                uint64
}

// NewTier returns an empty tier.
func NewTier(limits TierLimits, policy Policy) *Tier {
	t := &Tier{limits: limits.filled(), policy: policy, slots: make([]slot, limits.Slots), byHash: make(map[Hash]int32, limits.Slots),
		free: make([]int32, limits.Slots), recent: newOrder(), pins: make(map[Hash]int)}
	for i := range t.free {
		t.free[i] = int32(limits.Slots - 1 - i) // slot 0 is given out first
	}
	return t
}

// State is how a block is here.
func (t *Tier) State(h Hash) State {
	if i, ok := t.byHash[h]; ok {
		return t.slots[i].state
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
	for i := n - 1; i >= 0; i-- {
		s := &t.slots[t.byHash[hashes[i]]]
		if s.state == Leaving {
			t.stats.Kept++
			t.stay(s)
		}
		s.uses++
		s.used = t.step
		t.policy.Use(s.hash)
		t.recent.push(s.hash)
	}
	return n
}

// stay makes a leaving block resident again.
func (t *Tier) stay(s *slot) {
	t.leaves--
	t.settle(s)
}

// settle makes a block resident.
func (t *Tier) settle(s *slot) {
	s.state, s.used = Resident, t.step
	t.policy.Add(s.hash)
	t.recent.push(s.hash)
}

// Dropped is a block that was given up, and why.
type Dropped struct {
	Hash Hash
	Slot int32
	Why  string
}

// Reserve gives a block that is Absent a slot to be written to: it is Arriving until Commit or Abort. Where none is free, the
// block that would leave next is dropped for it; it reports false where none can be.
func (t *Tier) Reserve(h Hash) (slot int32, dropped *Dropped, ok bool) {
	if t.State(h) != Absent {
		panic(fmt.Sprintf("kv: reserve of a block that is %s", t.State(h)))
	}
	if len(t.free) == 0 {
		victim, ok := t.policy.Victim(t.idle)
		if !ok {
			return 0, nil, false
		}
		dropped = &Dropped{victim, t.byHash[victim], "its slot was needed before it could go down a tier"}
		t.Drop(victim)
	}
	slot = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.slots[slot].hash, t.slots[slot].state = h, Arriving
	t.byHash[h] = slot
	return slot, dropped, true
}

// idle reports whether a resident block may go: nobody copies it, and it is not pinned.
func (t *Tier) idle(h Hash) bool { return t.slots[t.byHash[h]].copies == 0 && t.pins[h] == 0 }

// Commit says that an arriving block is all there.
func (t *Tier) Commit(slot int32) {
	s := t.in(slot, Arriving)
	s.uses = 0
	t.stats.Arrivals++
	t.committed = append(t.committed, Committed{slot, s.hash})
	t.settle(s)
}

// Abort says that an arriving block will not come, and that nothing writes to its slot any more.
func (t *Tier) Abort(slot int32) { t.clear(t.in(slot, Arriving)) }

// Restore says that a free slot holds a block: what an earlier life left there. It reports false, and does nothing, where the slot
// is not free or does not exist, or the block is here already.
func (t *Tier) Restore(slot int32, h Hash) bool {
	if t.State(h) != Absent {
		return false
	}
	for i, f := range t.free {
		if f == slot {
			t.free = append(t.free[:i], t.free[i+1:]...)
			t.slots[slot].hash = h
			t.byHash[h] = slot
			t.committed = append(t.committed, Committed{slot, h})
			t.settle(&t.slots[slot])
			return true
		}
	}
	return false
}

// Read begins a copy of a block out of its slot, which stays what it is until Done. It reports false where it is not Resident.
func (t *Tier) Read(h Hash) (slot int32, ok bool) {
	slot, ok = t.byHash[h]
	if !ok || t.slots[slot].state != Resident {
		return 0, false
	}
	t.slots[slot].copies++
	return slot, true
}

// Done ends a copy that Read began.
func (t *Tier) Done(slot int32) {
	s := &t.slots[slot]
	if s.copies == 0 {
		panic("kv: end of a copy that did not begin")
	}
	if s.copies--; s.state == Absent && s.copies == 0 {
		t.free = append(t.free, slot)
	}
}

// Drop gives a block up: by decision, or because it is damaged. Its slot is free when no copy out of it is under way. It reports false
// where the block can not be read, and so not be dropped.
func (t *Tier) Drop(h Hash) bool {
	slot, ok := t.byHash[h]
	if !ok || t.slots[slot].state == Arriving {
		return false
	}
	t.stats.Drops++
	t.clear(&t.slots[slot])
	return true
}

// Flush drops all blocks that can be read, but those that are pinned or being copied, and returns how many that was.
func (t *Tier) Flush() (n int) {
	for {
		h, ok := t.recent.oldest(t.idle)
		if !ok {
			return n
		}
		t.Drop(h)
		n++
	}
}

// clear makes a slot Absent, and free if nothing is copied out of it.
func (t *Tier) clear(s *slot) {
	slot := t.byHash[s.hash]
	delete(t.byHash, s.hash)
	if s.state == Leaving {
		t.leaves--
	}
	if s.state != Arriving {
		t.evicted = append(t.evicted, slot)
	}
	t.policy.Remove(s.hash)
	t.recent.remove(s.hash)
	if s.state = Absent; s.copies == 0 {
		t.free = append(t.free, slot)
	}
}

func (t *Tier) in(slot int32, want State) *slot {
	s := &t.slots[slot]
	if s.state != want {
		panic(fmt.Sprintf("kv: slot %d is %s, not %s", slot, s.state, want))
	}
	return s
}

// Pin keeps a block from leaving once it is here, until as many calls of Unpin.
func (t *Tier) Pin(h Hash) {
	t.pins[h]++
	if t.State(h) == Leaving {
		t.stay(&t.slots[t.byHash[h]])
	}
}

// Unpin takes one pin away. It reports false where there is none.
func (t *Tier) Unpin(h Hash) bool {
	n, ok := t.pins[h]
	switch {
	case n > 1:
		t.pins[h] = n - 1
	case ok:
		delete(t.pins, h)
	}
	return ok
}

// Stats describes the tier.
func (t *Tier) Stats() TierStats {
	s := t.stats
	s.Slots, s.Free, s.Resident, s.Leaving = len(t.slots), len(t.free), t.recent.len(), t.leaves
	s.Arriving = len(t.byHash) - s.Resident - s.Leaving
	for h := range t.pins {
		if t.State(h) == Resident {
			s.Pinned++
		}
	}
	return s
}

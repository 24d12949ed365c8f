package kv

import (
	"slices"

	"pgregory.net/rapid"
)

// copyOut is a copy out of a slot in flight: a restore or a demotion.
type copyOut struct {
	slot    int32
	hash    Hash
	demotes bool
}

// tierModel is a naive tier: the state of each block, the content of each slot and the copies in
// flight.
type tierModel struct {
	state   map[Hash]State // by slot
	content map[int32]Hash // of slots
	slot    map[Hash]int32
	copies  []copyOut
	pins    map[Hash]int
	dropped map[Hash]bool // by a returned decision, since the block was last resident

	lowerAvailable bool
}

func (m *tierModel) busy(slot int32) bool {
	return slices.ContainsFunc(m.copies, func(c copyOut) bool { return c.slot == slot })
}

// drop records a returned decision to drop a block, which must not be pinned.
func (m *tierModel) drop(t *rapid.T, h Hash) {
	if m.pins[h] > 0 {
		t.Fatalf("pinned: block %x was dropped", h[:2])
	}
	m.dropped[h] = true
	m.state[h] = Absent
}

// sizeOfTest returns the size of a test block in bytes. There are three common sizes, and one that
// does not fit in every slab.
func sizeOfTest(h Hash) int {
	for n := range 9 {
		if testHash(n) == h {
			return SlotUnit * []int{1, 2, 3, 5}[n%4]
		}
	}
	panic("another block")
}

// checkDropped checks the blocks dropped for a block: one of its size, or all of another size's
// slab.
func (m *tierModel) checkDropped(t *rapid.T, slabs Slabs, h Hash, dropped []Dropped) {
	for _, d := range dropped {
		if m.state[d.Hash] != Resident || m.slot[d.Hash] != d.Slot || m.busy(d.Slot) || d.Why == "" {
			t.Fatalf("dropped %+v, which was %v", d, m.state[d.Hash])
		}
		m.drop(t, d.Hash)
	}
	for _, d := range dropped {
		slab, _ := slabs.Locate(d.Slot)
		if first, _ := slabs.Locate(dropped[0].Slot); slab != first || sizeOfTest(d.Hash) == sizeOfTest(h) &&
			len(dropped) > 1 {
			t.Fatalf("dropped %+v for a block of %d bytes", dropped, sizeOfTest(h))
		}
		if m.lowerAvailable && sizeOfTest(d.Hash) != sizeOfTest(h) {
			t.Fatalf("cascade: dropped %+v for a block of %d bytes", d, sizeOfTest(h))
		}
		for other, state := range m.state {
			if in, _ := slabs.Locate(m.slot[other]); state != Absent && in == slab &&
				sizeOfTest(d.Hash) != sizeOfTest(h) {
				t.Fatalf("still: slab %d was taken from a block that is %v", slab, state)
			}
		}
	}
}

// finishAll ends all copies and demotes all selected blocks. No slab may then be waiting for
// reassignment.
func (m *tierModel) finishAll(t *rapid.T, tier *Tier) {
	for _, c := range m.copies {
		if c.demotes {
			tier.DemotionDone(c.slot, true)
		} else {
			tier.Done(c.slot)
		}
	}
	for _, d := range tier.SelectSlabDemotions() {
		tier.DemotionDone(d.Slot, true)
	}
	for i, in := range tier.slabs {
		if in.newOwner != nil {
			t.Fatalf("reassigned: slab %d never reaches the blocks of %d bytes", i, in.newOwner.bytes)
		}
	}
}

// checkFull checks that no slot was possible for a block that got none.
func (m *tierModel) checkFull(t *rapid.T, tier *Tier, h Hash) {
	slabs := tier.limits.Slabs
	fit := slabs.Fit(sizeOfTest(h))
	stays := make([]bool, slabs.Count) // slabs that hold a block that has to stay
	own := make([]int, slabs.Count)    // taken slots of this size, by slab
	for _, other := range m.taken() {
		slab, _ := slabs.Locate(other.slot)
		if tier.slabs[slab].newOwner != nil {
			continue
		}
		if sizeOfTest(other.hash) == sizeOfTest(h) {
			own[slab]++
		}
		movable := m.state[other.hash] == Resident && m.slot[other.hash] == other.slot && m.pins[other.hash] == 0 &&
			!m.busy(other.slot)
		if movable && sizeOfTest(other.hash) == sizeOfTest(h) && fit > 0 {
			t.Fatalf("reserve: refused, though %x could be dropped", other.hash[:2])
		}
		stays[slab] = stays[slab] || !movable
	}
	for slab := range slabs.Count {
		if fit > 0 && tier.slabs[slab].newOwner == nil && (own[slab] > 0 && own[slab] < fit || own[slab] == 0 &&
			!stays[slab]) {
			t.Fatalf("reserve: refused, though slab %d has or could have room", slab)
		}
	}
}

// taken returns the slots that are not free and their blocks.
func (m *tierModel) taken() (all []copyOut) {
	seen := map[int32]bool{}
	for h, state := range m.state {
		if state != Absent {
			all, seen[m.slot[h]] = append(all, copyOut{slot: m.slot[h], hash: h}), true
		}
	}
	for _, c := range m.copies {
		if !seen[c.slot] {
			all, seen[c.slot] = append(all, c), true
		}
	}
	return all
}

func (m *tierModel) checkConservation(t *rapid.T, slabs Slabs, s TierStats) {
	counts, bytes := map[State]int{}, int64(0)
	for _, state := range m.state {
		counts[state]++
	}
	taken := m.taken()
	for i, a := range taken {
		bytes += int64(sizeOfTest(a.hash))
		from, to := extent(slabs, a)
		for _, b := range taken[:i] {
			if other, end := extent(slabs, b); from < end && other < to {
				t.Fatalf("apart: slots %d and %d overlap", a.slot, b.slot)
			}
		}
		if slab, _ := slabs.Locate(a.slot); from < slab*slabs.Bytes+slabs.SlabHeader || to > (slab+1)*slabs.Bytes ||
			slab >= slabs.Count {
			t.Fatalf("apart: slot %d starts at %d", a.slot, from)
		}
	}
	var slots, in, held int
	for _, z := range s.Sizes {
		slots, in, held = slots+z.Slots, in+z.Slabs, held+z.Taken
		if z.Slots != z.Slabs*slabs.Fit(z.Bytes) || z.Taken > z.Slots {
			t.Fatalf("conservation: %+v", z)
		}
	}
	if slots != s.Slots || held != len(taken) || in > slabs.Count || s.Slots-s.Free != len(taken) ||
		s.TakenBytes != bytes || s.CapacityBytes != int64(slabs.Count*slabs.Bytes) ||
		s.Arriving != counts[Arriving] || s.Resident != counts[Resident] || s.Leaving != counts[Leaving] {
		t.Fatalf("conservation: %+v, with %v, and %d slots taken", s, counts, len(taken))
	}
}

// extent returns the byte range of a slot.
func extent(slabs Slabs, c copyOut) (from, to int) {
	from = int(slabs.Offset(c.slot, sizeOfTest(c.hash)))
	return from, from + slabs.SlotHeader + sizeOfTest(c.hash)
}

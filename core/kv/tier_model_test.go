package kv

import (
	"slices"

	"pgregory.net/rapid"
)

// copied is a copy out of a slot that is under way: a restore, or a departure.
type copied struct {
	slot   int32
	hash   Hash
	leaves bool
}

// tierModel is the obvious tier: the state of each block, what the bytes of each slot are, and which copies run.
type tierModel struct {
	state   map[Hash]State
	content map[int32]Hash // of slots
	slot    map[Hash]int32
	copies  []copied
	pins    map[Hash]int
	dropped map[Hash]bool // by decision, since the block last was resident

	cascades bool
}

func (m *tierModel) busy(slot int32) bool {
	return slices.ContainsFunc(m.copies, func(c copied) bool { return c.slot == slot })
}

// drop says that a block left without anybody having decided so, if it did.
func (m *tierModel) drop(t *rapid.T, h Hash) {
	if m.pins[h] > 0 {
		t.Fatalf("pinned: block %x was dropped", h[:2])
	}
	m.dropped[h] = true
	m.state[h] = Absent
}

// sizeOfTest is how many units a block of the test takes: three sizes, and one that does not fit into every slab.
func sizeOfTest(h Hash) int {
	for n := range 9 {
		if testHash(n) == h {
			return SlotUnit * []int{1, 2, 3, 5}[n%4]
		}
	}
	panic("another block")
}

// given checks what was dropped for a block: one of its size, or all of a slab of another.
func (m *tierModel) given(t *rapid.T, slabs Slabs, h Hash, dropped []Dropped) {
	for _, d := range dropped {
		if m.state[d.Hash] != Resident || m.slot[d.Hash] != d.Slot || m.busy(d.Slot) || d.Why == "" {
			t.Fatalf("dropped %+v, which was %v", d, m.state[d.Hash])
		}
		m.drop(t, d.Hash)
	}
	for _, d := range dropped {
		slab, _ := slabs.Of(d.Slot)
		if first, _ := slabs.Of(dropped[0].Slot); slab != first || sizeOfTest(d.Hash) == sizeOfTest(h) && len(dropped) > 1 {
			t.Fatalf("dropped %+v for a block of %d bytes", dropped, sizeOfTest(h))
		}
		if m.cascades && sizeOfTest(d.Hash) != sizeOfTest(h) {
			t.Fatalf("cascade: dropped %+v for a block of %d bytes", d, sizeOfTest(h))
		}
		for other, state := range m.state {
			if in, _ := slabs.Of(m.slot[other]); state != Absent && in == slab && sizeOfTest(d.Hash) != sizeOfTest(h) {
				t.Fatalf("still: slab %d was taken from a block that is %v", slab, state)
			}
		}
	}
}

// settle ends all copies, and has all leave that are to: nobody waits for a slab then.
func (m *tierModel) settle(t *rapid.T, tier *Tier) {
	for _, c := range m.copies {
		if c.leaves {
			tier.Left(c.slot, true)
		} else {
			tier.Done(c.slot)
		}
	}
	for _, d := range tier.Evacuate() {
		tier.Left(d.Slot, true)
	}
	for i, in := range tier.slabs {
		if in.heir != nil {
			t.Fatalf("vacated: slab %d is waited for by blocks of %d bytes for ever", i, in.heir.bytes)
		}
	}
}

// full checks that a block that got no slot could not have got one.
func (m *tierModel) full(t *rapid.T, tier *Tier, h Hash) {
	slabs := tier.limits.Slabs
	fit := slabs.Fit(sizeOfTest(h))
	stays := make([]bool, slabs.Count) // slabs of another size of which a block has to stay
	own := make([]int, slabs.Count)    // slots of this size that are taken
	for _, other := range m.taken() {
		slab, _ := slabs.Of(other.slot)
		if tier.slabs[slab].heir != nil {
			continue
		}
		if sizeOfTest(other.hash) == sizeOfTest(h) {
			own[slab]++
		}
		movable := m.state[other.hash] == Resident && m.slot[other.hash] == other.slot && m.pins[other.hash] == 0 && !m.busy(other.slot)
		if movable && sizeOfTest(other.hash) == sizeOfTest(h) && fit > 0 {
			t.Fatalf("reserve: refused, and %x could go", other.hash[:2])
		}
		stays[slab] = stays[slab] || !movable
	}
	for slab := range slabs.Count {
		if fit > 0 && tier.slabs[slab].heir == nil && (own[slab] > 0 && own[slab] < fit || own[slab] == 0 && !stays[slab]) {
			t.Fatalf("reserve: refused, and slab %d has or could have room", slab)
		}
	}
}

// taken are the slots that are not free, with the blocks that they are taken by.
func (m *tierModel) taken() (all []copied) {
	seen := map[int32]bool{}
	for h, state := range m.state {
		if state != Absent {
			all, seen[m.slot[h]] = append(all, copied{slot: m.slot[h], hash: h}), true
		}
	}
	for _, c := range m.copies {
		if !seen[c.slot] {
			all, seen[c.slot] = append(all, c), true
		}
	}
	return all
}

func (m *tierModel) conserved(t *rapid.T, slabs Slabs, s TierStats) {
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
		if slab, _ := slabs.Of(a.slot); from < slab*slabs.Bytes+slabs.Lead || to > (slab+1)*slabs.Bytes || slab >= slabs.Count {
			t.Fatalf("apart: slot %d begins at %d", a.slot, from)
		}
	}
	var slots, in, held int
	for _, z := range s.Sizes {
		slots, in, held = slots+z.Slots, in+z.Slabs, held+z.Taken
		if z.Slots != z.Slabs*slabs.Fit(z.Bytes) || z.Taken > z.Slots {
			t.Fatalf("conservation: %+v", z)
		}
	}
	if slots != s.Slots || held != len(taken) || in > slabs.Count || s.Slots-s.Free != len(taken) || s.Taken != bytes || s.Capacity != int64(slabs.Count*slabs.Bytes) ||
		s.Arriving != counts[Arriving] || s.Resident != counts[Resident] || s.Leaving != counts[Leaving] {
		t.Fatalf("conservation: %+v, with %v, and %d slots taken", s, counts, len(taken))
	}
}

// extent are the bytes of a slot.
func extent(slabs Slabs, c copied) (from, to int) {
	from = int(slabs.At(c.slot, sizeOfTest(c.hash)))
	return from, from + slabs.Head + sizeOfTest(c.hash)
}

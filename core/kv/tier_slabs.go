package kv

import (
	"maps"
	"math"
	"slices"
)

// slab is a row of slots for blocks of one size.
type slab struct {
	class *sizeClass // nil: not assigned yet
	// newOwner is the class that gets the slab once all slots are free; nil: not being reassigned.
	// No slot is handed out meanwhile.
	newOwner   *sizeClass
	slots      []slot
	taken      int    // slots that are not free
	lastUseSum uint64 // sum of lastUse over the slots
}

// sizeClass tracks the blocks of one size in a tier.
type sizeClass struct {
	bytes   int // per block
	policy  Policy
	recent  lruQueue // resident blocks, least recently used first
	slots   int      // in its slabs
	taken   int      // slots that are not free
	leaving int      // blocks that are Leaving
	free    []int32  // stack of slots: every free one, and some that are stale
}

func (t *Tier) sizeClassOf(bytes int) *sizeClass {
	z := t.sizes[bytes]
	if z == nil {
		z = &sizeClass{bytes: bytes, recent: newLRUQueue(),
			policy: t.policy(t.limits.Slabs.Count * t.limits.Slabs.Fit(bytes))}
		t.sizes[bytes] = z
	}
	return z
}

// sizeClasses returns all size classes, smallest first.
func (t *Tier) sizeClasses() []*sizeClass {
	return slices.SortedFunc(maps.Values(t.sizes), func(a, b *sizeClass) int { return a.bytes - b.bytes })
}

// at returns a slot of an assigned slab, and the slab.
func (t *Tier) at(n int32) (*slab, *slot) {
	i, nth := t.limits.Slabs.Locate(n)
	return &t.slabs[i], &t.slabs[i].slots[nth]
}

// takeFree takes a free slot of a size class. It reports false if there is none.
func (t *Tier) takeFree(z *sizeClass) (int32, bool) {
	for len(z.free) > 0 {
		n := z.free[len(z.free)-1]
		z.free = z.free[:len(z.free)-1]
		i, nth := t.limits.Slabs.Locate(n)
		if in := &t.slabs[i]; in.class == z && in.newOwner == nil && in.slots[nth].free() {
			t.occupy(in)
			return n, true
		}
	}
	return 0, false
}

func (t *Tier) occupy(in *slab) {
	in.taken++
	in.class.taken++
}

// release frees a slot. Freeing the last slot of a slab completes the slab's reassignment, if there
// is one.
func (t *Tier) release(in *slab, n int32) {
	in.taken--
	in.class.taken--
	in.class.free = append(in.class.free, n)
	if in.newOwner != nil && in.taken == 0 {
		i, _ := t.limits.Slabs.Locate(n)
		t.assign(i, in.newOwner)
	}
}

// capacityFor returns how many blocks of a size class fit without evicting any block that does not
// already have to leave.
func (t *Tier) capacityFor(z *sizeClass) int {
	room, fit := z.slots, t.limits.Slabs.Fit(z.bytes)
	for i := range t.slabs {
		switch in := &t.slabs[i]; {
		case in.class == z && in.newOwner != nil:
			room -= fit - in.taken
		case in.newOwner == z, in.class != z && in.taken == 0:
			room += fit
		}
	}
	return room
}

// makeRoom assigns an empty slab to the class, or drops blocks to make room for one more of its
// blocks: those of a colder slab of another class, or one block of its own class. It drops nothing
// if no block can be dropped, or if a slab is being reassigned, since its blocks are demoted first.
func (t *Tier) makeRoom(z *sizeClass) (dropped []Dropped) {
	if i, ok := t.emptySlab(); ok {
		t.assign(i, z)
		return nil
	}
	if t.Reassigning(z.bytes) || t.reassignTo(z) {
		return nil
	}
	if i, colder := t.coldest(z); colder {
		for nth := range t.slabs[i].slots {
			if s := &t.slabs[i].slots[nth]; s.state == Resident {
				dropped = append(dropped,
					t.dropFor(s.hash, "its slab was the coldest and blocks of another size needed it"))
			}
		}
		t.assign(i, z)
	} else if h, ok := z.policy.Victim(t.replaceable); ok {
		dropped = append(dropped, t.dropFor(h, "its slot was needed before it could be demoted"))
	}
	return dropped
}

func (t *Tier) dropFor(h Hash, why string) Dropped {
	d := Dropped{h, t.byHash[h], why}
	t.Drop(h)
	return d
}

// emptySlab returns the index of an empty slab.
func (t *Tier) emptySlab() (int, bool) {
	i := slices.IndexFunc(t.slabs, func(in slab) bool { return in.taken == 0 })
	return i, i >= 0
}

// coldest returns the slab of another class with the lowest mean lastUse that can be emptied. It
// reports false if every such slab was used more recently than the oldest block of class z. Free
// slots do not count, so a slab assigned just now is not cold merely because it is empty.
func (t *Tier) coldest(z *sizeClass) (coldest int, ok bool) {
	than := math.Inf(1)
	if h, some := z.recent.oldest(t.replaceable); some {
		_, s := t.at(t.byHash[h])
		than = float64(s.lastUse)
	}
	for i := range t.slabs {
		in := &t.slabs[i]
		if in.class == z || in.taken == 0 || in.newOwner != nil {
			continue
		}
		if mean := float64(in.lastUseSum) / float64(in.taken); mean < than && t.canEmpty(in) {
			coldest, than, ok = i, mean, true
		}
	}
	return coldest, ok
}

// canEmpty reports whether every block of a slab may be evicted. With a lower tier, blocks that are
// already Leaving do not count against it.
func (t *Tier) canEmpty(in *slab) bool {
	return !slices.ContainsFunc(in.slots, func(s slot) bool {
		leaves := s.state == Leaving && t.lowerAvailable && t.pins[s.hash] == 0
		return !s.free() && !leaves && (s.state != Resident || !t.evictable(s.hash))
	})
}

// assign assigns a slab without taken slots to a size class.
func (t *Tier) assign(i int, z *sizeClass) {
	in := &t.slabs[i]
	if in.class != nil {
		in.class.slots -= len(in.slots)
	}
	in.class, in.newOwner, in.slots = z, nil, make([]slot, t.limits.Slabs.Fit(z.bytes))
	z.slots += len(in.slots)
	for nth := range in.slots {
		// Slots are taken from the end of the list, so the first slot of the slab is added last.
		z.free = append(z.free, t.limits.Slabs.Slot(i, len(in.slots)-1-nth))
	}
}

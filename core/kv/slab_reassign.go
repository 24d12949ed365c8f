package kv

import (
	"cmp"
	"slices"
)

// A slab that blocks of another size need, or will need soon, is reassigned if there is a tier
// below. SelectSlabDemotions demotes all its blocks at once, and the slab changes its owner when
// the last one has left. Its blocks remain readable meanwhile; a block that is used stays until the
// tier below has it. A pin cancels the reassignment.

// SetLowerAvailable sets whether the tier below accepts blocks; initially it does not. While it
// does not, slabs are not reassigned: a slab that another size needs has its blocks dropped.
func (t *Tier) SetLowerAvailable(available bool) {
	t.lowerAvailable = available
	for i := range t.slabs {
		if in := &t.slabs[i]; !available && in.newOwner != nil {
			t.cancelReassign(i)
		}
	}
}

// Reassigning reports whether a slab is being reassigned to blocks of a size. Meanwhile Reserve
// makes no other room for them.
func (t *Tier) Reassigning(bytes int) bool {
	return slices.ContainsFunc(t.slabs, func(in slab) bool { return in.newOwner != nil && in.newOwner.bytes == bytes })
}

// reassignTo starts reassigning the coldest slab to a size class. It reports false if no slab is
// colder, its blocks cannot be demoted, or a slab is already being reassigned to this class.
func (t *Tier) reassignTo(z *sizeClass) bool {
	i, ok := t.coldest(z)
	if ok = ok && t.lowerAvailable && !t.Reassigning(z.bytes) && t.canDemote(t.slabs[i].class); ok {
		t.slabs[i].newOwner = z
	}
	return ok
}

// cancelReassign leaves a slab with its current size class.
func (t *Tier) cancelReassign(i int) {
	in := &t.slabs[i]
	in.newOwner = nil
	ofSlab := func(n int32) bool { slab, _ := t.limits.Slabs.Locate(n); return slab == i }
	in.class.free = slices.DeleteFunc(in.class.free, ofSlab)
	for nth := range in.slots {
		if in.slots[nth].free() {
			in.class.free = append(in.class.free, t.limits.Slabs.Slot(i, nth))
		}
	}
}

// SelectSlabDemotions selects the blocks of slabs that are being reassigned for demotion, like
// SelectDemotions. It selects all evictable blocks; within a slab, the least recently used first.
func (t *Tier) SelectSlabDemotions() (all []Demotion) {
	for i := range t.slabs {
		in := &t.slabs[i]
		if in.newOwner == nil {
			continue
		}
		var due []*slot
		for nth := range in.slots {
			if s := &in.slots[nth]; s.state == Resident && t.evictable(s.hash) {
				due = append(due, s)
			}
		}
		slices.SortFunc(due, func(a, b *slot) int { return cmp.Compare(a.lastUse, b.lastUse) })
		for _, s := range due {
			all = append(all, t.demote(s.hash))
		}
	}
	return all
}

package kv

import (
	"cmp"
	"slices"
)

// A slab that blocks of another size need, or will soon, is vacated where there is a tier below: Evacuate has its blocks go down, all at once, and with the last of them it is
// given away. What is in it can be read meanwhile, and wanted: then it stays until the tier below has it. A pin calls that off.

// Cascade says whether the tier below takes blocks now; a new tier takes it that there is none. Where it does not, slabs are not vacated: what is in one that
// is needed is dropped.
func (t *Tier) Cascade(takes bool) {
	t.cascades = takes
	for i := range t.slabs {
		if in := &t.slabs[i]; !takes && in.heir != nil {
			t.retain(i)
		}
	}
}

// Vacating reports whether a slab is being vacated for blocks of a size. Until it is theirs, or is so no more, Reserve makes no other room for them.
func (t *Tier) Vacating(bytes int) bool {
	return slices.ContainsFunc(t.slabs, func(in slab) bool { return in.heir != nil && in.heir.bytes == bytes })
}

// vacateFor has the coldest slab vacated for a size. It reports false where none is colder, what is in it can not go down, or another one is being vacated for
// that size.
func (t *Tier) vacateFor(z *size) bool {
	i, ok := t.coldest(z)
	if ok = ok && t.cascades && !t.Vacating(z.bytes) && t.sinks(t.slabs[i].size); ok {
		t.slabs[i].heir = z
	}
	return ok
}

// retain leaves a slab that was being vacated with its size.
func (t *Tier) retain(i int) {
	in := &t.slabs[i]
	in.heir = nil
	elsewhere := func(n int32) bool { slab, _ := t.limits.Slabs.Of(n); return slab == i }
	in.size.free = slices.DeleteFunc(in.size.free, elsewhere)
	for nth := range in.slots {
		if in.slots[nth].free() {
			in.size.free = append(in.size.free, t.limits.Slabs.Slot(i, nth))
		}
	}
}

// Evacuate is Depart of the blocks of slabs that are being vacated, all that nobody reads; of each slab those that were wanted longest ago first.
func (t *Tier) Evacuate() (all []Departure) {
	for i := range t.slabs {
		in := &t.slabs[i]
		if in.heir == nil {
			continue
		}
		var due []*slot
		for nth := range in.slots {
			if s := &in.slots[nth]; s.state == Resident && t.idle(s.hash) {
				due = append(due, s)
			}
		}
		slices.SortFunc(due, func(a, b *slot) int { return cmp.Compare(a.wanted, b.wanted) })
		for _, s := range due {
			all = append(all, t.leave(s.hash, "its slab is needed for blocks of another size, and was the coldest"))
		}
	}
	return all
}

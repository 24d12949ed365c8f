package kv

// TierStats describe a tier. Slots and Free are of the slabs that are given to a size.
type TierStats struct {
	Slots, Free, Arriving, Resident, Leaving, Pinned int
	Hits, Misses                                     uint64 // blocks that were wanted
	Arrivals, Departures, Drops, Kept                uint64

	Capacity, Taken int64 // bytes of all slabs, and of the blocks that have slots
	Sizes           []SizeStats
}

// SizeStats describe what blocks of one size have of a tier.
type SizeStats struct{ Bytes, Slabs, Slots, Taken int }

// Stats describes the tier.
func (t *Tier) Stats() TierStats {
	s := t.stats
	s.Leaving = t.leaves
	s.Capacity = t.limits.Slabs.Capacity()
	for _, z := range t.bySize() {
		s.Resident += z.recent.len()
		s.Slots += z.slots
		s.Free += z.slots - z.taken
		s.Taken += int64(z.taken) * int64(z.bytes)
		if z.slots > 0 {
			s.Sizes = append(s.Sizes, SizeStats{z.bytes, z.slots / t.limits.Slabs.Fit(z.bytes), z.slots, z.taken})
		}
	}
	s.Arriving = len(t.byHash) - s.Resident - s.Leaving
	for h := range t.pins {
		if t.State(h) == Resident {
			s.Pinned++
		}
	}
	return s
}

package kv

// TierStats describe a tier. Slots and Free count the slabs that are assigned to a size.
type TierStats struct {
	Slots, Free, Arriving, Resident, Leaving, Pinned int
	Hits, Misses                                     uint64 // blocks looked up
	Arrivals, Demotions, Drops, Reclaimed            uint64

	CapacityBytes, TakenBytes int64 // bytes of all slabs, and of the blocks in slots
	Sizes                     []SizeStats
}

// SizeStats describe the blocks of one size in a tier.
type SizeStats struct{ Bytes, Slabs, Slots, Taken int }

// Stats returns the current statistics.
func (t *Tier) Stats() TierStats {
	s := t.stats
	s.Leaving = t.leaving
	s.CapacityBytes = t.limits.Slabs.Capacity()
	for _, z := range t.sizeClasses() {
		s.Resident += z.recent.len()
		s.Slots += z.slots
		s.Free += z.slots - z.taken
		s.TakenBytes += int64(z.taken) * int64(z.bytes)
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

package kv

import (
	"slices"
)

// Demotion is a block selected to leave a tier.
type Demotion struct {
	Hash Hash
	Slot int32
	Size int // bytes
}

// Tick advances the step count. Call it at the end of each step.
func (t *Tier) Tick() { t.step++ }

// SelectDemotions selects the blocks that leave the tier ahead of need. These are blocks that were
// idle for too long, and as many blocks of each size as exceed the watermark. A size above the
// watermark first tries to get a colder slab of another size. The selected blocks are Leaving, and
// their slots are read until DemotionDone.
func (t *Tier) SelectDemotions() (all []Demotion) {
	classes := slices.DeleteFunc(t.sizeClasses(), func(z *sizeClass) bool { return !t.canDemote(z) })
	for _, z := range classes {
		for t.limits.IdleSteps > 0 && t.leaving < t.maxLeaving(z) {
			h, ok := z.recent.oldest(t.evictable)
			if !ok {
				break
			}
			_, s := t.at(t.byHash[h])
			if t.step-s.usedStep < t.limits.IdleSteps {
				break
			}
			all = append(all, t.demote(h))
		}
	}
	for _, z := range classes {
		most := t.maxTaken(z)
		if z.taken-z.leaving > most && t.reassignTo(z) {
			most = t.maxTaken(z)
		}
		for t.leaving < t.maxLeaving(z) && z.taken-z.leaving > most {
			h, ok := z.policy.Victim(t.replaceable)
			if !ok {
				// A pinned block is not lost in the tier below, and makes room for others here. Blocks in a slab
				// that is being reassigned leave before it.
				if _, withSlab := z.recent.oldest(t.evictable); !withSlab {
					h, ok = z.policy.Victim(t.pinnedEvictable)
				}
			}
			if !ok {
				break
			}
			all = append(all, t.demote(h))
		}
	}
	return all
}

// maxTaken returns the number of blocks of a size that the watermark allows.
func (t *Tier) maxTaken(z *sizeClass) int {
	return int(t.limits.Watermark * float64(t.capacityFor(z)))
}

// canDemote reports whether blocks of a size can move to the tier below.
func (t *Tier) canDemote(z *sizeClass) bool {
	return t.limits.MaxDemoteBytes == 0 || z.bytes <= t.limits.MaxDemoteBytes
}

// maxLeaving returns how many blocks may be Leaving before no further block of this size is
// selected.
func (t *Tier) maxLeaving(z *sizeClass) int {
	if t.limits.Burst > 0 {
		return t.limits.Burst
	}
	return max(1, t.limits.Slabs.Count*t.limits.Slabs.Fit(z.bytes)/16)
}

func (t *Tier) demote(h Hash) Demotion {
	slot := t.byHash[h]
	in, s := t.at(slot)
	s.state = Leaving
	s.copies++
	t.leaving++
	in.class.leaving++
	in.class.policy.Remove(h)
	in.class.recent.remove(h)
	return Demotion{h, slot, in.class.bytes}
}

// DemotionDone ends the copy of a demoted block. If gone is true, the block was stored below or is
// given up, and its slot is freed. A block that was used meanwhile still stays, unless its slab is
// being reassigned. If gone is false, the block stays.
func (t *Tier) DemotionDone(slot int32, gone bool) {
	in, s := t.at(slot)
	switch {
	case gone && (s.state == Leaving || s.state == Resident && in.newOwner != nil):
		t.stats.Demotions++
		t.clear(slot)
	case s.state == Leaving:
		t.cancelDemotion(in, s)
	}
	t.Done(slot)
}

package kv

import "fmt"

// Departure is a block that is to leave a tier, and why.
type Departure struct {
	Hash Hash
	Slot int32
	Why  string
}

// Tick says that a step has ended.
func (t *Tier) Tick() { t.step++ }

// Depart decides which blocks leave now, ahead of need: those that were idle too long, and as many as are above the watermark. They
// are Leaving, and copied out of their slots, until Left.
func (t *Tier) Depart() []Departure {
	var all []Departure
	for t.leaves < t.limits.Burst {
		h, ok := t.recent.oldest(t.idle)
		if !ok || t.limits.IdleSteps == 0 {
			break
		}
		idle := t.step - t.slots[t.byHash[h]].used
		if idle < t.limits.IdleSteps {
			break
		}
		all = append(all, t.leave(h, fmt.Sprintf("idle for %d steps of %d", idle, t.limits.IdleSteps)))
	}
	for t.leaves < t.limits.Burst && t.above() > 0 {
		h, ok := t.policy.Victim(t.idle)
		if !ok {
			break
		}
		all = append(all, t.leave(h, fmt.Sprintf("%d of %d slots are taken, which is above %.0f %%",
			len(t.slots)-len(t.free), len(t.slots), 100*t.limits.Watermark)))
	}
	return all
}

// above is by how many slots the tier is above its watermark, those that are becoming free not counted.
func (t *Tier) above() int {
	return len(t.slots) - len(t.free) - t.leaves - int(t.limits.Watermark*float64(len(t.slots)))
}

func (t *Tier) leave(h Hash, why string) Departure {
	slot := t.byHash[h]
	s := &t.slots[slot]
	s.state = Leaving
	s.copies++
	t.leaves++
	t.policy.Remove(h)
	t.recent.remove(h)
	return Departure{h, slot, why}
}

// Left ends the copy of a departure. Where the block is below, or is given up, it is gone from here, unless it was wanted meanwhile; where it could
// not be copied and is not given up it stays.
func (t *Tier) Left(slot int32, gone bool) {
	s := &t.slots[slot]
	if s.state == Leaving {
		if gone {
			t.stats.Departures++
			t.clear(s)
		} else {
			t.stay(s)
		}
	}
	t.Done(slot)
}

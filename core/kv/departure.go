package kv

import "fmt"

// Departure is a block that is to leave a tier, and why.
type Departure struct {
	Hash Hash
	Slot int32
	Size int // bytes of the block
	Why  string
}

// Tick says that a step has ended.
func (t *Tier) Tick() { t.step++ }

// Depart decides which blocks leave now, ahead of need: those that were idle too long, and as many of each size as are above the watermark.
// They are Leaving, and copied out of their slots, until Left.
func (t *Tier) Depart() (all []Departure) {
	for t.limits.IdleSteps > 0 {
		h, ok := t.recent.oldest(t.idle)
		if !ok {
			break
		}
		in, s := t.at(t.byHash[h])
		idle := t.step - s.used
		if idle < t.limits.IdleSteps || t.leaves >= t.burst(in.size) {
			break
		}
		all = append(all, t.leave(h, fmt.Sprintf("idle for %d steps of %d", idle, t.limits.IdleSteps)))
	}
	for _, z := range t.bySize() {
		room := t.room(z)
		for t.leaves < t.burst(z) && z.taken-z.leaves > int(t.limits.Watermark*float64(room)) {
			h, ok := z.policy.Victim(t.idle)
			if !ok {
				h, ok = z.policy.Victim(t.unread) // what is pinned is not lost below, and leaves others room here
			}
			if !ok {
				break
			}
			all = append(all, t.leave(h, fmt.Sprintf("%d of %d slots are taken, which is above %.0f %%", z.taken, room, 100*t.limits.Watermark)))
		}
	}
	return all
}

// burst is how many blocks may be leaving while one of a size does.
func (t *Tier) burst(z *size) int {
	if t.limits.Burst > 0 {
		return t.limits.Burst
	}
	return max(1, t.limits.Slabs.Count*t.limits.Slabs.Fit(z.bytes)/16)
}

func (t *Tier) leave(h Hash, why string) Departure {
	slot := t.byHash[h]
	in, s := t.at(slot)
	s.state = Leaving
	s.copies++
	t.leaves++
	in.size.leaves++
	in.size.policy.Remove(h)
	t.recent.remove(h)
	return Departure{h, slot, in.size.bytes, why}
}

// Left ends the copy of a departure. Where the block is below, or is given up, it is gone from here, unless it was wanted meanwhile; where it could
// not be copied and is not given up it stays.
func (t *Tier) Left(slot int32, gone bool) {
	if in, s := t.at(slot); s.state == Leaving {
		if gone {
			t.stats.Departures++
			t.clear(slot)
		} else {
			t.stay(in, s)
		}
	}
	t.Done(slot)
}

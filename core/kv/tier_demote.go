package kv

import (
	"fmt"
	"slices"
)

// Departure is a block that is to leave a tier, and why.
type Departure struct {
	Hash Hash
	Slot int32
	Size int // bytes of the block
	Why  string
}

// Tick says that a step has ended.
func (t *Tier) Tick() { t.step++ }

// Depart decides which blocks leave now, ahead of need: those that were idle too long, and as many of each size as are above the watermark, unless a colder
// slab of another size can be vacated for it. They are Leaving, and copied out of their slots, until Left.
func (t *Tier) Depart() (all []Departure) {
	fit := slices.DeleteFunc(t.bySize(), func(z *size) bool { return !t.sinks(z) })
	for _, z := range fit {
		for t.limits.IdleSteps > 0 && t.leaves < t.burst(z) {
			h, ok := z.recent.oldest(t.idle)
			if !ok {
				break
			}
			_, s := t.at(t.byHash[h])
			idle := t.step - s.used
			if idle < t.limits.IdleSteps {
				break
			}
			all = append(all, t.leave(h, fmt.Sprintf("idle for %d steps of %d", idle, t.limits.IdleSteps)))
		}
	}
	for _, z := range fit {
		most, room := t.most(z)
		if z.taken-z.leaves > most && t.vacateFor(z) {
			most, room = t.most(z)
		}
		for t.leaves < t.burst(z) && z.taken-z.leaves > most {
			h, ok := z.policy.Victim(t.replaceable)
			if !ok {
				h, ok = z.policy.Victim(t.pinned) // what is pinned is not lost below, and leaves others room here
			}
			if !ok {
				break
			}
			all = append(all, t.leave(h, fmt.Sprintf("%d of %d slots are taken, which is above %.0f %%", z.taken, room, 100*t.limits.Watermark)))
		}
	}
	return all
}

// most is how many blocks of a size are not above the watermark, and how many there is room for.
func (t *Tier) most(z *size) (most, room int) {
	room = t.room(z)
	return int(t.limits.Watermark * float64(room)), room
}

// sinks reports whether blocks of a size can leave.
func (t *Tier) sinks(z *size) bool { return t.limits.Below == 0 || z.bytes <= t.limits.Below }

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
	in.size.recent.remove(h)
	return Departure{h, slot, in.size.bytes, why}
}

// Left ends the copy of a departure. Where the block is below, or is given up, it is gone from here, unless it was wanted meanwhile and its slab is not needed for
// another size; where it could not be copied and is not given up it stays.
func (t *Tier) Left(slot int32, gone bool) {
	in, s := t.at(slot)
	switch {
	case gone && (s.state == Leaving || s.state == Resident && in.heir != nil):
		t.stats.Departures++
		t.clear(slot)
	case s.state == Leaving:
		t.stay(in, s)
	}
	t.Done(slot)
}

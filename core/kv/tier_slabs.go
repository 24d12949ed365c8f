package kv

import (
	"maps"
	"math"
	"slices"
)

// slab is a row of slots for blocks of one size.
type slab struct {
	size   *size // that it is given to; nil: to none yet
	heir   *size // that it is given to once its slots are free, of which none is given out meanwhile; nil: it stays with its size
	slots  []slot
	taken  int    // of these, are not free
	wanted uint64 // sum of its slots'
}

// size is what blocks of one size have of a tier.
type size struct {
	bytes  int // of a block
	policy Policy
	recent order   // its resident blocks, the one wanted longest ago first
	slots  int     // of its slabs
	taken  int     // of these, are not free
	leaves int     // its blocks that are Leaving
	free   []int32 // a stack: every free slot, and some that are not, or not of this size any more
}

func (t *Tier) sizeOf(bytes int) *size {
	z := t.sizes[bytes]
	if z == nil {
		z = &size{bytes: bytes, recent: newOrder(), policy: t.policy(t.limits.Slabs.Count * t.limits.Slabs.Fit(bytes))}
		t.sizes[bytes] = z
	}
	return z
}

// bySize are all sizes that there have been, the smallest first.
func (t *Tier) bySize() []*size {
	return slices.SortedFunc(maps.Values(t.sizes), func(a, b *size) int { return a.bytes - b.bytes })
}

// at is a slot of a slab that is given to a size, and the slab.
func (t *Tier) at(n int32) (*slab, *slot) {
	i, nth := t.limits.Slabs.Of(n)
	return &t.slabs[i], &t.slabs[i].slots[nth]
}

// take makes a free slot of a size one that is not free.
func (t *Tier) take(z *size) (int32, bool) {
	for len(z.free) > 0 {
		n := z.free[len(z.free)-1]
		z.free = z.free[:len(z.free)-1]
		i, nth := t.limits.Slabs.Of(n)
		if in := &t.slabs[i]; in.size == z && in.heir == nil && in.slots[nth].free() {
			t.occupy(in)
			return n, true
		}
	}
	return 0, false
}

func (t *Tier) occupy(in *slab) {
	in.taken++
	in.size.taken++
}

// release makes a slot free that was not.
func (t *Tier) release(in *slab, n int32) {
	in.taken--
	in.size.taken--
	in.size.free = append(in.size.free, n)
	if in.heir != nil && in.taken == 0 {
		i, _ := t.limits.Slabs.Of(n)
		t.give(i, in.heir)
	}
}

// room is how many blocks of a size there could be without any other having to go that does not have to already.
func (t *Tier) room(z *size) int {
	room, fit := z.slots, t.limits.Slabs.Fit(z.bytes)
	for i := range t.slabs {
		switch in := &t.slabs[i]; {
		case in.size == z && in.heir != nil:
			room -= fit - in.taken
		case in.heir == z, in.size != z && in.taken == 0:
			room += fit
		}
	}
	return room
}

// makeRoom gives a size an empty slab, or drops what has to go for another block of it: a colder slab of another size, or a block of its own. It drops nothing where
// nothing can go, and where the blocks of a slab go down a tier first.
func (t *Tier) makeRoom(z *size) (dropped []Dropped) {
	if i, ok := t.vacant(); ok {
		t.give(i, z)
		return nil
	}
	if t.Vacating(z.bytes) || t.vacateFor(z) {
		return nil
	}
	if i, colder := t.coldest(z); colder {
		for nth := range t.slabs[i].slots {
			if s := &t.slabs[i].slots[nth]; s.state == Resident {
				dropped = append(dropped, t.dropFor(s.hash, "its slab was needed for blocks of another size, and was the coldest"))
			}
		}
		t.give(i, z)
	} else if h, ok := z.policy.Victim(t.replaceable); ok {
		dropped = append(dropped, t.dropFor(h, "its slot was needed before it could go down a tier"))
	}
	return dropped
}

func (t *Tier) dropFor(h Hash, why string) Dropped {
	d := Dropped{h, t.byHash[h], why}
	t.Drop(h)
	return d
}

// vacant is an empty slab.
func (t *Tier) vacant() (int, bool) {
	i := slices.IndexFunc(t.slabs, func(in slab) bool { return in.taken == 0 })
	return i, i >= 0
}

// coldest is the slab whose blocks were on average wanted longest ago, of those that are given to another size and that can be taken from it; false where that is no
// longer ago than for any block of this size. Free slots do not count: a slab that was given away just now is not cold for being empty still.
func (t *Tier) coldest(z *size) (coldest int, ok bool) {
	than := math.Inf(1)
	if h, some := z.recent.oldest(t.replaceable); some {
		_, s := t.at(t.byHash[h])
		than = float64(s.wanted)
	}
	for i := range t.slabs {
		in := &t.slabs[i]
		if in.size == z || in.taken == 0 || in.heir != nil {
			continue
		}
		if mean := float64(in.wanted) / float64(in.taken); mean < than && t.movable(in) {
			coldest, than, ok = i, mean, true
		}
	}
	return coldest, ok
}

// movable reports whether all blocks of a slab may go. Where they go down a tier, some may be on the way.
func (t *Tier) movable(in *slab) bool {
	return !slices.ContainsFunc(in.slots, func(s slot) bool {
		leaves := s.state == Leaving && t.cascades && t.pins[s.hash] == 0
		return !s.free() && !leaves && (s.state != Resident || !t.idle(s.hash))
	})
}

// give makes a slab whose slots are all free one of a size.
func (t *Tier) give(i int, z *size) {
	in := &t.slabs[i]
	if in.size != nil {
		in.size.slots -= len(in.slots)
	}
	in.size, in.heir, in.slots = z, nil, make([]slot, t.limits.Slabs.Fit(z.bytes))
	z.slots += len(in.slots)
	for nth := range in.slots {
		z.free = append(z.free, t.limits.Slabs.Slot(i, len(in.slots)-1-nth)) // the first is given out first
	}
}

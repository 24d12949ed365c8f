package kv

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTierAgainstModel drives a tier with random calls, under every policy.
func TestTierAgainstModel(t *testing.T) {
	for _, name := range PolicyNames() {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { driveTier(t, name) }) })
	}
}

func driveTier(t *rapid.T, name string) {
	slabs := Slabs{
		Count: rapid.IntRange(1, 4).Draw(t, "slabs"), Bytes: SlotUnit * rapid.IntRange(2, 6).Draw(t, "units"),
		SlabHeader: SlotUnit * rapid.IntRange(0, 1).Draw(t, "lead"),
		SlotHeader: SlotUnit * rapid.IntRange(0, 1).Draw(t, "head"),
	}
	tier := newTier(t, TierLimits{Slabs: slabs, Watermark: 0.7, IdleSteps: 3, Burst: 2}, name)
	reassigning := func(slot int32) bool {
		i, _ := slabs.Locate(slot)
		return tier.slabs[i].newOwner != nil
	}
	m := &tierModel{state: map[Hash]State{}, content: map[int32]Hash{}, slot: map[Hash]int32{}, pins: map[Hash]int{},
		dropped: map[Hash]bool{}}
	block := func(t *rapid.T) Hash { return testHash(rapid.IntRange(1, 8).Draw(t, "block")) }
	in := func(state State) (all []Hash) {
		for n := 1; n <= 8; n++ {
			if h := testHash(n); m.state[h] == state {
				all = append(all, h)
			}
		}
		return all
	}
	reported := map[int32]Hash{} // by Changes
	t.Repeat(map[string]func(*rapid.T){
		"changes": func(t *rapid.T) {
			evicted, committed := tier.Changes()
			for _, slot := range evicted {
				delete(reported, slot)
			}
			for i, c := range committed {
				if reported[c.Block] = c.Hash; slices.Contains(committed[:i], c) {
					t.Fatalf("reported: %+v twice", c)
				}
			}
			for _, h := range slices.Concat(in(Resident), in(Leaving)) {
				if reported[m.slot[h]] != h {
					t.Fatalf("reported: %x in slot %d is missing", h[:2], m.slot[h])
				}
			}
			if n := len(in(Resident)) + len(in(Leaving)); len(reported) != n {
				t.Fatalf("reported: %d blocks, the tier has %d", len(reported), n)
			}
		},
		"reserve": func(t *rapid.T) {
			h := block(t)
			if m.state[h] != Absent {
				return
			}
			slot, dropped, ok := tier.Reserve(h, sizeOfTest(h))
			m.checkDropped(t, slabs, h, dropped)
			if !ok {
				if !tier.Reassigning(sizeOfTest(h)) {
					m.checkFull(t, tier, h)
				}
				return
			}
			if reassigning(slot) {
				t.Fatalf("reassigned: slot %d was handed out", slot)
			}
			m.state[h], m.slot[h], m.content[slot] = Arriving, slot, Hash{} // being written: not readable
		},
		"commit": func(t *rapid.T) {
			for _, h := range in(Arriving) {
				tier.Commit(m.slot[h])
				m.state[h], m.content[m.slot[h]], m.dropped[h] = Resident, h, false
				return
			}
		},
		"abort": func(t *rapid.T) {
			if all := in(Arriving); len(all) > 0 {
				h := rapid.SampledFrom(all).Draw(t, "arriving")
				tier.Abort(m.slot[h])
				m.state[h] = Absent
			}
		},
		"read": func(t *rapid.T) {
			h := block(t)
			slot, ok := tier.Read(h)
			if ok != (m.state[h] == Resident) || ok && m.content[slot] != h {
				t.Fatalf("read: %v of a block that is %v", ok, m.state[h])
			}
			if ok {
				m.copies = append(m.copies, copyOut{slot: slot, hash: h})
			}
		},
		"end": func(t *rapid.T) {
			if len(m.copies) == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.copies)-1).Draw(t, "copy")
			c := m.copies[i]
			if m.content[c.slot] != c.hash {
				t.Fatalf("reuse: slot %d was written before the copy out of it ended", c.slot)
			}
			m.copies = slices.Delete(m.copies, i, i+1)
			if !c.demotes {
				tier.Done(c.slot)
				return
			}
			gone, needed := rapid.Bool().Draw(t, "gone"), reassigning(c.slot)
			tier.DemotionDone(c.slot, gone)
			if m.slot[c.hash] == c.slot && (m.state[c.hash] == Leaving || m.state[c.hash] == Resident && gone &&
				needed) {
				if m.state[c.hash] = Resident; gone {
					m.state[c.hash], m.dropped[c.hash] = Absent, true
				}
			}
		},
		"lookup": func(t *rapid.T) {
			h := block(t)
			want := 0
			if s := m.state[h]; s == Resident || s == Leaving {
				want, m.state[h] = 1, Resident
			}
			if got := tier.Lookup([]Hash{h}); got != want {
				t.Fatalf("lookup: %d of a block that is %v", got, m.state[h])
			}
		},
		"drop": func(t *rapid.T) {
			h := block(t)
			s := m.state[h]
			if got := tier.Drop(h); got != (s == Resident || s == Leaving) {
				t.Fatalf("drop: %v of a block that is %v", got, s)
			} else if got {
				m.state[h], m.dropped[h] = Absent, true
			}
		},
		"pin": func(t *rapid.T) {
			h := block(t)
			tier.Pin(h)
			m.pins[h]++
			if m.state[h] == Leaving {
				m.state[h] = Resident
			}
		},
		"unpin": func(t *rapid.T) {
			h := block(t)
			if got := tier.Unpin(h); got != (m.pins[h] > 0) {
				t.Fatalf("unpin: %v of %d pins", got, m.pins[h])
			} else if got {
				m.pins[h]--
			}
		},
		"tick": func(*rapid.T) { tier.Tick() },
		"lower available": func(t *rapid.T) {
			m.lowerAvailable = rapid.Bool().Draw(t, "available")
			tier.SetLowerAvailable(m.lowerAvailable)
		},
		"select demotions": func(t *rapid.T) {
			ofSlabs := tier.SelectSlabDemotions()
			for i, d := range append(ofSlabs, tier.SelectDemotions()...) {
				if m.state[d.Hash] != Resident || m.slot[d.Hash] != d.Slot || m.busy(d.Slot) {
					t.Fatalf("demotion of %+v, which is %v", d, m.state[d.Hash])
				}
				if i < len(ofSlabs) && m.pins[d.Hash] > 0 {
					t.Fatalf("slab demotion of %+v with %d pins", d, m.pins[d.Hash])
				}
				for other, state := range m.state {
					if m.pins[d.Hash] > 0 && state == Resident && m.pins[other] == 0 && !m.busy(m.slot[other]) &&
						sizeOfTest(other) == sizeOfTest(d.Hash) {
						t.Fatalf("pinned: %x leaves before %x", d.Hash[:2], other[:2])
					}
				}
				m.state[d.Hash] = Leaving
				m.copies = append(m.copies, copyOut{d.Slot, d.Hash, true})
			}
		},
		"": func(t *rapid.T) {
			for n := 1; n <= 8; n++ {
				if h := testHash(n); tier.State(h) != m.state[h] {
					t.Fatalf("lost: block %d is %v, not %v; dropped by decision: %v", n, tier.State(h), m.state[h],
						m.dropped[h])
				}
			}
			m.checkConservation(t, slabs, tier.Stats())
		},
	})
	m.finishAll(t, tier)
}

func newTier(t interface{ Fatal(...any) }, limits TierLimits, policy string) *Tier {
	tier, err := NewTier(limits, policy)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

// oneSlab returns a single slab with slots for blocks of one unit.
func oneSlab(slots int) Slabs { return Slabs{Count: 1, Bytes: slots * SlotUnit} }

// fill makes blocks resident, in the order of their numbers.
func fill(t *Tier, from, to int) {
	for n := from; n <= to; n++ {
		slot, _, ok := t.Reserve(testHash(n), SlotUnit)
		if !ok {
			panic("no slot")
		}
		t.Commit(slot)
	}
}

func blockNumbers(demotions []Demotion) (all []int) {
	for _, d := range demotions {
		for n := range 100 {
			if testHash(n) == d.Hash {
				all = append(all, n)
			}
		}
	}
	return all
}

// TestSelectDemotions checks which blocks leave, when, and in which order.
func TestSelectDemotions(t *testing.T) {
	for name, tc := range map[string]struct {
		limits TierLimits
		then   func(*Tier)
		want   string
	}{
		"below the watermark": {TierLimits{Slabs: oneSlab(10), Watermark: 0.9},
			func(t *Tier) { fill(t, 1, 9) }, "[]"},
		"oldest above the watermark": {TierLimits{Slabs: oneSlab(10), Watermark: 0.7, Burst: 9},
			func(t *Tier) { fill(t, 1, 9) }, "[1 2]"},
		"limited by the burst": {TierLimits{Slabs: oneSlab(10), Watermark: 0.5, Burst: 2},
			func(t *Tier) { fill(t, 1, 9) }, "[1 2]"},
		"used blocks stay": {TierLimits{Slabs: oneSlab(10), Watermark: 0.7, Burst: 9},
			func(t *Tier) { fill(t, 1, 9); t.Lookup([]Hash{testHash(1)}) }, "[2 3]"},
		"the end of a prompt first": {TierLimits{Slabs: oneSlab(4), Watermark: 0.5, Burst: 9},
			func(t *Tier) { fill(t, 1, 4); t.Lookup([]Hash{testHash(1), testHash(2), testHash(3), testHash(4)}) },
			"[4 3]"},
		"pinned blocks stay": {TierLimits{Slabs: oneSlab(10), Watermark: 0.7, Burst: 9},
			func(t *Tier) { fill(t, 1, 9); t.Pin(testHash(2)) }, "[1 3]"},
		"pinned blocks leave last": {TierLimits{Slabs: oneSlab(4), Watermark: 0.5, Burst: 9}, func(t *Tier) {
			fill(t, 1, 4)
			for n := 1; n <= 3; n++ {
				t.Pin(testHash(n))
			}
		}, "[4 1]"},
		"blocks being read stay": {TierLimits{Slabs: oneSlab(10), Watermark: 0.7, Burst: 9},
			func(t *Tier) { fill(t, 1, 9); t.Read(testHash(1)) }, "[2 3]"},
		"leaving blocks count as gone": {TierLimits{Slabs: oneSlab(10), Watermark: 0.7, Burst: 9},
			func(t *Tier) { fill(t, 1, 9); t.SelectDemotions() }, "[]"},
		"idle": {TierLimits{Slabs: oneSlab(10), IdleSteps: 100, Burst: 9}, func(t *Tier) {
			fill(t, 1, 3)
			for step := range 100 {
				if t.Tick(); step == 50 {
					t.Lookup([]Hash{testHash(2)})
				}
			}
		}, "[1 3]"},
		"not idle long enough": {TierLimits{Slabs: oneSlab(10), IdleSteps: 100, Burst: 9}, func(t *Tier) {
			fill(t, 1, 3)
			for range 99 {
				t.Tick()
			}
		}, "[]"},
	} {
		tier := newTier(t, tc.limits, "lru")
		tc.then(tier)
		if got := fmt.Sprint(blockNumbers(tier.SelectDemotions())); got != tc.want {
			t.Errorf("%s: selected %s, want %s", name, got, tc.want)
		}
	}
}

// TestLookupCancelsDemotion checks that a block that is looked up while it leaves stays, and its
// slot is not free when the copy ends.
func TestLookupCancelsDemotion(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: oneSlab(2), Watermark: 0.5}, "lru")
	fill(tier, 1, 2)
	d := tier.SelectDemotions()[0]
	if _, ok := tier.Read(d.Hash); ok || tier.State(d.Hash) != Leaving {
		t.Errorf("a leaving block was read; its state is %v", tier.State(d.Hash))
	}
	if tier.Lookup([]Hash{d.Hash}) != 1 || tier.State(d.Hash) != Resident {
		t.Errorf("state %v after Lookup", tier.State(d.Hash))
	}
	tier.DemotionDone(d.Slot, true)
	if s := tier.Stats(); tier.State(d.Hash) != Resident || s.Free != 0 || s.Reclaimed != 1 || s.Demotions != 0 {
		t.Errorf("state %v after DemotionDone; %+v", tier.State(d.Hash), s)
	}
}

// TestTierRecover checks that each block of an earlier incarnation is recovered once.
func TestTierRecover(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: oneSlab(3)}, "lru")
	for _, tc := range []struct {
		slot int32
		hash int
		want bool
	}{{1, 7, true}, {1, 8, false}, {2, 7, false}, {3, 9, false}, {-1, 9, false}, {2, 9, true}} {
		if got := tier.Recover(tc.slot, testHash(tc.hash), SlotUnit); got != tc.want {
			t.Errorf("slot %d, block %d: %v", tc.slot, tc.hash, got)
		}
	}
	if n := tier.Match([]Hash{testHash(7), testHash(9), testHash(8)}); n != 2 {
		t.Errorf("%d blocks match, want 2", n)
	}
}

// TestTierChangesListsBlockOnce checks that a block that left and returned to its slot between two
// calls of Changes is listed once.
func TestTierChangesListsBlockOnce(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: oneSlab(1)}, "lru")
	for range 2 {
		slot, _, _ := tier.Reserve(testHash(1), SlotUnit)
		tier.Commit(slot)
		tier.Drop(testHash(1))
	}
	slot, _, _ := tier.Reserve(testHash(1), SlotUnit)
	tier.Commit(slot)
	if evicted, committed := tier.Changes(); len(committed) != 1 || committed[0] != (Committed{0, testHash(1)}) ||
		len(evicted) == 0 {
		t.Errorf("evicted %v, committed %v", evicted, committed)
	}
}

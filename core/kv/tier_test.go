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
		Lead: SlotUnit * rapid.IntRange(0, 1).Draw(t, "lead"), Head: SlotUnit * rapid.IntRange(0, 1).Draw(t, "head"),
	}
	tier := newTier(t, TierLimits{Slabs: slabs, Watermark: 0.7, IdleSteps: 3, Burst: 2}, name)
	vacating := func(slot int32) bool {
		i, _ := slabs.Of(slot)
		return tier.slabs[i].heir != nil
	}
	m := &tierModel{state: map[Hash]State{}, content: map[int32]Hash{}, slot: map[Hash]int32{}, pins: map[Hash]int{}, dropped: map[Hash]bool{}}
	block := func(t *rapid.T) Hash { return testHash(rapid.IntRange(1, 8).Draw(t, "block")) }
	in := func(state State) (all []Hash) {
		for n := 1; n <= 8; n++ {
			if h := testHash(n); m.state[h] == state {
				all = append(all, h)
			}
		}
		return all
	}
	told := map[int32]Hash{} // by Changes
	t.Repeat(map[string]func(*rapid.T){
		"changes": func(t *rapid.T) {
			evicted, committed := tier.Changes()
			for _, slot := range evicted {
				delete(told, slot)
			}
			for i, c := range committed {
				if told[c.Block] = c.Hash; slices.Contains(committed[:i], c) {
					t.Fatalf("told: %+v twice", c)
				}
			}
			for _, h := range slices.Concat(in(Resident), in(Leaving)) {
				if told[m.slot[h]] != h {
					t.Fatalf("told: nothing of %x in slot %d", h[:2], m.slot[h])
				}
			}
			if n := len(in(Resident)) + len(in(Leaving)); len(told) != n {
				t.Fatalf("told: of %d blocks, and there are %d", len(told), n)
			}
		},
		"reserve": func(t *rapid.T) {
			h := block(t)
			if m.state[h] != Absent {
				return
			}
			slot, dropped, ok := tier.Reserve(h, sizeOfTest(h))
			m.given(t, slabs, h, dropped)
			if !ok {
				if !tier.Vacating(sizeOfTest(h)) {
					m.full(t, tier, h)
				}
				return
			}
			if vacating(slot) {
				t.Fatalf("vacated: slot %d was given out", slot)
			}
			m.state[h], m.slot[h], m.content[slot] = Arriving, slot, Hash{} // being written: nobody may read it
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
				m.copies = append(m.copies, copied{slot: slot, hash: h})
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
			if !c.leaves {
				tier.Done(c.slot)
				return
			}
			gone, needed := rapid.Bool().Draw(t, "gone"), vacating(c.slot)
			tier.Left(c.slot, gone)
			if m.slot[c.hash] == c.slot && (m.state[c.hash] == Leaving || m.state[c.hash] == Resident && gone && needed) {
				if m.state[c.hash] = Resident; gone {
					m.state[c.hash], m.dropped[c.hash] = Absent, true
				}
			}
		},
		"want": func(t *rapid.T) {
			h := block(t)
			want := 0
			if s := m.state[h]; s == Resident || s == Leaving {
				want, m.state[h] = 1, Resident
			}
			if got := tier.Want([]Hash{h}); got != want {
				t.Fatalf("want: %d of a block that is %v", got, m.state[h])
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
		"cascade": func(t *rapid.T) {
			m.cascades = rapid.Bool().Draw(t, "takes")
			tier.Cascade(m.cascades)
		},
		"depart": func(t *rapid.T) {
			evacuated := tier.Evacuate()
			for i, d := range append(evacuated, tier.Depart()...) {
				if m.state[d.Hash] != Resident || m.slot[d.Hash] != d.Slot || m.busy(d.Slot) || d.Why == "" {
					t.Fatalf("depart: %+v, which is %v", d, m.state[d.Hash])
				}
				if i < len(evacuated) && m.pins[d.Hash] > 0 {
					t.Fatalf("evacuated: %+v with %d pins", d, m.pins[d.Hash])
				}
				for other, state := range m.state {
					if m.pins[d.Hash] > 0 && state == Resident && m.pins[other] == 0 && !m.busy(m.slot[other]) && sizeOfTest(other) == sizeOfTest(d.Hash) {
						t.Fatalf("pinned: %x leaves before %x", d.Hash[:2], other[:2])
					}
				}
				m.state[d.Hash] = Leaving
				m.copies = append(m.copies, copied{d.Slot, d.Hash, true})
			}
		},
		"": func(t *rapid.T) {
			for n := 1; n <= 8; n++ {
				if h := testHash(n); tier.State(h) != m.state[h] {
					t.Fatalf("lost: block %d is %v, not %v; dropped by decision: %v", n, tier.State(h), m.state[h], m.dropped[h])
				}
			}
			m.conserved(t, slabs, tier.Stats())
		},
	})
	m.settle(t, tier)
}

func newTier(t interface{ Fatal(...any) }, limits TierLimits, policy string) *Tier {
	tier, err := NewTier(limits, policy)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

// row are slabs with so many slots for blocks of one unit, in one.
func row(slots int) Slabs { return Slabs{Count: 1, Bytes: slots * SlotUnit} }

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

func numbers(departures []Departure) (all []int) {
	for _, d := range departures {
		for n := range 100 {
			if testHash(n) == d.Hash {
				all = append(all, n)
			}
		}
	}
	return all
}

// TestDepartures: who leaves, when, and in which order.
func TestDepartures(t *testing.T) {
	for name, tc := range map[string]struct {
		limits TierLimits
		then   func(*Tier)
		want   string
	}{
		"below the watermark none":      {TierLimits{Slabs: row(10), Watermark: 0.9}, func(t *Tier) { fill(t, 1, 9) }, "[]"},
		"above it the oldest":           {TierLimits{Slabs: row(10), Watermark: 0.7, Burst: 9}, func(t *Tier) { fill(t, 1, 9) }, "[1 2]"},
		"as many as may leave at once":  {TierLimits{Slabs: row(10), Watermark: 0.5, Burst: 2}, func(t *Tier) { fill(t, 1, 9) }, "[1 2]"},
		"what was wanted stays":         {TierLimits{Slabs: row(10), Watermark: 0.7, Burst: 9}, func(t *Tier) { fill(t, 1, 9); t.Want([]Hash{testHash(1)}) }, "[2 3]"},
		"the end of a prompt before it": {TierLimits{Slabs: row(4), Watermark: 0.5, Burst: 9}, func(t *Tier) { fill(t, 1, 4); t.Want([]Hash{testHash(1), testHash(2), testHash(3), testHash(4)}) }, "[4 3]"},
		"what is pinned stays":          {TierLimits{Slabs: row(10), Watermark: 0.7, Burst: 9}, func(t *Tier) { fill(t, 1, 9); t.Pin(testHash(2)) }, "[1 3]"},
		"or leaves last": {TierLimits{Slabs: row(4), Watermark: 0.5, Burst: 9}, func(t *Tier) {
			fill(t, 1, 4)
			for n := 1; n <= 3; n++ {
				t.Pin(testHash(n))
			}
		}, "[4 1]"},
		"what is being read stays":       {TierLimits{Slabs: row(10), Watermark: 0.7, Burst: 9}, func(t *Tier) { fill(t, 1, 9); t.Read(testHash(1)) }, "[2 3]"},
		"what is leaving counts as gone": {TierLimits{Slabs: row(10), Watermark: 0.7, Burst: 9}, func(t *Tier) { fill(t, 1, 9); t.Depart() }, "[]"},
		"idle": {TierLimits{Slabs: row(10), IdleSteps: 100, Burst: 9}, func(t *Tier) {
			fill(t, 1, 3)
			for step := range 100 {
				if t.Tick(); step == 50 {
					t.Want([]Hash{testHash(2)})
				}
			}
		}, "[1 3]"},
		"not idle for long enough": {TierLimits{Slabs: row(10), IdleSteps: 100, Burst: 9}, func(t *Tier) {
			fill(t, 1, 3)
			for range 99 {
				t.Tick()
			}
		}, "[]"},
	} {
		tier := newTier(t, tc.limits, "lru")
		tc.then(tier)
		if got := fmt.Sprint(numbers(tier.Depart())); got != tc.want {
			t.Errorf("%s: %s left, not %s", name, got, tc.want)
		}
	}
}

// TestWantedWhileItLeaves: a block that is wanted while it leaves stays, and its slot is not free when the copy ends.
func TestWantedWhileItLeaves(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: row(2), Watermark: 0.5}, "lru")
	fill(tier, 1, 2)
	d := tier.Depart()[0]
	if _, ok := tier.Read(d.Hash); ok || tier.State(d.Hash) != Leaving {
		t.Errorf("a leaving block can be read; it is %v", tier.State(d.Hash))
	}
	if tier.Want([]Hash{d.Hash}) != 1 || tier.State(d.Hash) != Resident {
		t.Errorf("it is %v", tier.State(d.Hash))
	}
	tier.Left(d.Slot, true)
	if s := tier.Stats(); tier.State(d.Hash) != Resident || s.Free != 0 || s.Kept != 1 || s.Departures != 0 {
		t.Errorf("it is %v; %+v", tier.State(d.Hash), s)
	}
}

// TestRestoredSlots: what an earlier life left is taken once.
func TestRestoredSlots(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: row(3)}, "lru")
	for _, tc := range []struct {
		slot int32
		hash int
		want bool
	}{{1, 7, true}, {1, 8, false}, {2, 7, false}, {3, 9, false}, {-1, 9, false}, {2, 9, true}} {
		if got := tier.Restore(tc.slot, testHash(tc.hash), SlotUnit); got != tc.want {
			t.Errorf("slot %d, block %d: %v", tc.slot, tc.hash, got)
		}
	}
	if n := tier.Match([]Hash{testHash(7), testHash(9), testHash(8)}); n != 2 {
		t.Errorf("%d blocks match", n)
	}
}

// TestTierTellsOnce: a block that went and came back to its slot between two calls of Changes is told once.
func TestTierTellsOnce(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: row(1)}, "lru")
	for range 2 {
		slot, _, _ := tier.Reserve(testHash(1), SlotUnit)
		tier.Commit(slot)
		tier.Drop(testHash(1))
	}
	slot, _, _ := tier.Reserve(testHash(1), SlotUnit)
	tier.Commit(slot)
	if evicted, committed := tier.Changes(); len(committed) != 1 || committed[0] != (Committed{0, testHash(1)}) || len(evicted) == 0 {
		t.Errorf("evicted %v, committed %v", evicted, committed)
	}
}

package kv

import (
	"fmt"
	"slices"
	"testing"
)

// put makes blocks of the given size resident and returns the blocks dropped for them, or -n if
// block n got no slot.
func put(t *Tier, units int, blocks ...int) (gone []int) {
	for _, n := range blocks {
		slot, dropped, ok := t.Reserve(testHash(n), units*SlotUnit)
		if !ok {
			return append(gone, -n)
		}
		for _, d := range dropped {
			gone = append(gone, blockNumbers([]Demotion{{Hash: d.Hash}})...)
		}
		t.Commit(slot)
	}
	return gone
}

func upTo(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func lookupAll(t *Tier, blocks ...int) {
	for _, n := range blocks {
		t.Lookup([]Hash{testHash(n)})
	}
}

// TestReserveTakesColdestSlab checks which blocks are dropped for a block of another size. There
// are three slabs, each of four small blocks (1 to 12, in this order) or two large ones.
func TestReserveTakesColdestSlab(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*Tier) []int // returns the dropped blocks
		want []int
	}{
		"nothing while a slab is free": {func(t *Tier) []int { return put(t, 2, 21) }, nil},
		"coldest slab, then its other half": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			return put(t, 2, 21,
				22)
		}, []int{1, 2, 3, 4}},
		"not a slab that was used": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			lookupAll(t, 1, 2, 3,
				4)
			return put(t, 2, 21)
		}, []int{5, 6, 7, 8}},
		"by the mean of its blocks": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			lookupAll(t, 4,
				3)
			return put(t, 2, 21)
		}, []int{5, 6, 7, 8}},
		"free slots do not make a slab cold": {func(t *Tier) []int {
			put(t, 2, upTo(21, 24)...)
			for range 3 {
				lookupAll(t, upTo(21, 24)...)
			}
			put(t, 1, 1)
			return put(t, 2, 25)
		}, []int{21}},
		"by last use, not frequency": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			for range 3 {
				lookupAll(t, 1, 2, 3, 4)
			}
			lookupAll(t, upTo(5, 12)...)
			return put(t, 2, 21)
		}, []int{1, 2, 3, 4}},
		"not a slab with a pin": {func(t *Tier) []int {
			put(t, 1,
				upTo(1, 12)...)
			t.Pin(testHash(3))
			return put(t, 2, 21)
		}, []int{5, 6, 7, 8}},
		"not a slab that is being read": {func(t *Tier) []int {
			put(t, 1,
				upTo(1, 12)...)
			t.Read(testHash(3))
			return put(t, 2, 21)
		}, []int{5, 6, 7, 8}},
		"not a slab with an arriving block": {func(t *Tier) []int {
			t.Reserve(testHash(20), SlotUnit)
			put(t, 1, upTo(1, 11)...)
			return put(t, 2, 21)
		}, []int{4, 5, 6, 7}},
		"empty slab first": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			for n := 9; n <= 12; n++ {
				t.Drop(testHash(n))
			}
			return put(t, 2, 21)
		}, nil},
		"second slab if colder": {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); return put(t, 2, 21, 22, 23) },
			[]int{1, 2, 3, 4, 5, 6, 7, 8}},
		"else its own victim": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			put(t, 2, 21, 22)
			lookupAll(t, upTo(5, 12)...)
			return put(t, 2, 23)
		}, []int{21}},
		"else its only own block": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			put(t, 4, 31)
			lookupAll(t, upTo(5, 12)...)
			return put(t, 4, 32)
		}, []int{31}},
		"small block takes from large ones": {func(t *Tier) []int {
			put(t, 2, upTo(21, 26)...)
			return put(t, 1,
				upTo(1, 4)...)
		}, []int{21, 22}},
		"none if all are pinned": {func(t *Tier) []int {
			put(t, 4, 31, 32, 33)
			for n := 31; n <= 33; n++ {
				t.Pin(testHash(n))
			}
			return put(t, 1, 1)
		}, []int{-1}},
		"none for a block larger than a slab": {func(t *Tier) []int { return put(t, 5, 1) }, []int{-1}},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}}, "lru")
		if got := tc.then(tier); !slices.Equal(got, tc.want) {
			t.Errorf("%s: dropped %v, want %v", name, got, tc.want)
		}
	}
}

// TestSizesDoNotThrashOneSlab checks the case of a policy whose next victim has just arrived. Such
// a victim must not justify taking a slab whose blocks were used before the victim but after other
// blocks of its size.
func TestSizesDoNotThrashOneSlab(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}}, "s3-fifo")
	put(tier, 2, 21)
	lookupAll(tier, 21)
	put(tier, 1, upTo(1, 8)...)
	put(tier, 2, 22)
	if gone := put(tier, 2, 23); !slices.Equal(gone, []int{22}) {
		t.Errorf("dropped %v, want block 22", gone)
	}
}

// TestSlabReassignment checks what happens to the blocks of a slab that a large block needs when
// there is a tier below. There are three slabs, each of four small blocks or two large ones; blocks
// 1 to 4 are in the coldest.
func TestSlabReassignment(t *testing.T) {
	large := testHash(21)
	demote := func(gone bool) func(*Tier) {
		return func(t *Tier) {
			for _, d := range t.SelectSlabDemotions() {
				t.DemotionDone(d.Slot, gone)
			}
		}
	}
	reserve := func(t *Tier) { t.Reserve(large, 2*SlotUnit) }
	var reading int32
	for name, tc := range map[string]struct {
		then []func(*Tier)
		ok   bool  // the large block got a slot
		gone []int // small blocks that are absent
		due  []int // selected by SelectSlabDemotions
	}{
		"the large block waits":            {nil, false, nil, upTo(1, 4)},
		"until the small blocks are below": {[]func(*Tier){demote(true)}, true, upTo(1, 4), nil},
		"coldest block first": {[]func(*Tier){func(t *Tier) { lookupAll(t, 2) }}, false, nil,
			[]int{1, 3, 4, 2}},
		"blocks are selected once": {[]func(*Tier){reserve, func(t *Tier) { t.SelectSlabDemotions() },
			reserve}, false, nil, nil},
		"waits for the last block": {[]func(*Tier){func(t *Tier) {
			for _, d := range t.SelectSlabDemotions()[:3] {
				t.DemotionDone(d.Slot, true)
			}
		}}, false, upTo(1, 3), nil},
		"waits for readers": {[]func(*Tier){func(t *Tier) { reading, _ = t.Read(testHash(2)) }, demote(true)}, false,
			[]int{1, 3, 4}, nil},
		"waits for readers that came meanwhile": {[]func(*Tier){func(t *Tier) {
			all := t.SelectSlabDemotions()
			lookupAll(t, 2)
			reading, _ = t.Read(testHash(2))
			for _, d := range all {
				t.DemotionDone(d.Slot, true)
			}
		}}, false, upTo(1, 4), nil},
		"until those readers end": {[]func(*Tier){func(t *Tier) {
			all := t.SelectSlabDemotions()
			lookupAll(t, 2)
			reading, _ = t.Read(testHash(2))
			for _, d := range all {
				t.DemotionDone(d.Slot, true)
			}
		}, func(t *Tier) { t.Done(reading) }}, true, upTo(1, 4), nil},
		"failed copies are retried": {[]func(*Tier){demote(false)}, false, nil, upTo(1, 4)},
		"a pin cancels":             {[]func(*Tier){func(t *Tier) { t.Pin(testHash(2)) }}, false, nil, upTo(5, 8)},
		"a pin cancels while blocks leave": {[]func(*Tier){func(t *Tier) {
			all := t.SelectSlabDemotions()
			t.Pin(testHash(2))
			for _, d := range all {
				t.DemotionDone(d.Slot, true)
			}
		}}, false, []int{1, 3, 4}, upTo(5, 8)},
		"a pin returns the free slots": {[]func(*Tier){func(t *Tier) {
			all := t.SelectSlabDemotions()
			for i, d := range all {
				if i == 2 {
					t.Pin(testHash(4))
				}
				t.DemotionDone(d.Slot, true)
			}
			put(t, 1, 13, 14, 15)
		}}, false, []int{1, 2, 3}, upTo(5, 8)},
		"a slab with leaving blocks is still the coldest": {[]func(*Tier){func(t *Tier) {
			t.SelectSlabDemotions()
			t.SetLowerAvailable(false)
			t.SetLowerAvailable(true)
		}}, false, nil, nil},
		"another size gets another slab": {[]func(*Tier){func(t *Tier) {
			t.Reserve(testHash(31),
				4*SlotUnit)
		}}, false, nil, upTo(1, 8)},
		"its free slots are not handed out": {[]func(*Tier){func(t *Tier) {
			t.Drop(testHash(1))
			put(t,
				1, 13)
		}}, false, []int{1, 5}, upTo(2, 4)},
		"Flush empties the slab": {[]func(*Tier){func(t *Tier) { t.Flush() }}, false,
			upTo(1, 12), nil},
		"tier below removed": {[]func(*Tier){func(t *Tier) { t.SetLowerAvailable(false) }}, true, upTo(1, 4), nil},
		"no tier below after a failed copy": {[]func(*Tier){demote(false),
			func(t *Tier) { t.SetLowerAvailable(false) }}, true, upTo(1, 4), nil},
		"no tier below while blocks leave": {[]func(*Tier){func(t *Tier) {
			t.SelectSlabDemotions()
			t.SetLowerAvailable(false)
		}}, true, upTo(5, 8), nil},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}}, "lru")
		tier.SetLowerAvailable(true)
		put(tier, 1, upTo(1, 12)...)
		reserve(tier)
		for _, f := range tc.then {
			f(tier)
		}
		_, _, ok := tier.Reserve(large, 2*SlotUnit)
		var gone []int
		for n := 1; n <= 12; n++ {
			if tier.State(testHash(n)) == Absent {
				gone = append(gone, n)
			}
		}
		if due := blockNumbers(tier.SelectSlabDemotions()); ok != tc.ok || !slices.Equal(gone, tc.gone) ||
			!slices.Equal(due, tc.due) {
			t.Errorf("%s: slot reserved: %v; absent %v, selected %v", name, ok, gone, due)
		}
	}
}

// TestSlabReassignmentAboveWatermark checks that a size above the watermark gets a slab that is
// colder than all its own; otherwise it demotes its own blocks.
func TestSlabReassignmentAboveWatermark(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*Tier)
		want []int // selected to leave
	}{
		"colder slab": {nil, upTo(1, 4)},
		"not two slabs at once": {func(t *Tier) { t.SelectDemotions(); t.limits.Watermark = 0.2 },
			[]int{5, 6, 21, 22, 1, 2, 3, 4}},
		"no tier below":  {func(t *Tier) { t.SetLowerAvailable(false) }, []int{21}},
		"no colder slab": {func(t *Tier) { lookupAll(t, upTo(1, 6)...) }, []int{21}},
		"empty slab does not count": {func(t *Tier) {
			t.Drop(testHash(5))
			t.Drop(testHash(6))
			t.limits.Watermark = 0.4
		}, upTo(1, 4)},
		"nothing below the watermark": {func(t *Tier) { t.Drop(testHash(22)) }, nil},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}, Watermark: 0.75, Burst: 9}, "lru")
		tier.SetLowerAvailable(true)
		put(tier, 1, upTo(1, 6)...)
		put(tier, 2, 21, 22)
		if tc.then != nil {
			tc.then(tier)
		}
		if got := blockNumbers(append(tier.SelectDemotions(), tier.SelectSlabDemotions()...)); !slices.Equal(got,
			tc.want) {
			t.Errorf("%s: selected %v, want %v", name, got, tc.want)
		}
	}
}

// TestBlocksTooLargeToDemoteStay checks that blocks that do not fit in the tier below stay until
// they are dropped.
func TestBlocksTooLargeToDemoteStay(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}, Watermark: 0.4, IdleSteps: 5, Burst: 9,
		MaxDemoteBytes: 3*SlotUnit - 1}, "lru")
	tier.SetLowerAvailable(true)
	put(tier, 3, 31, 32)
	put(tier, 2, 21)
	for range 5 {
		tier.Tick()
	}
	if due := blockNumbers(tier.SelectDemotions()); !slices.Equal(due, []int{21}) {
		t.Errorf("selected %v, want block 21", due)
	}
	if gone := put(tier, 1, 1); !slices.Equal(gone, []int{31}) || tier.Reassigning(SlotUnit) {
		t.Errorf("dropped %v, want block 31", gone)
	}
}

// TestSlabWithLeavingPinnedBlockIsNotReassigned checks that a slab with a pinned block that is
// leaving is not reassigned, since that block may stay after all.
func TestSlabWithLeavingPinnedBlockIsNotReassigned(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 1, Bytes: 2 * SlotUnit}, Watermark: 0.1, Burst: 9}, "lru")
	tier.SetLowerAvailable(true)
	tier.Pin(testHash(1))
	put(tier, 1, 1)
	leaving := tier.SelectDemotions()
	if gone := put(tier, 2, 21); len(leaving) != 1 || !slices.Equal(gone, []int{-21}) || tier.Reassigning(2*SlotUnit) {
		t.Errorf("selected %v, dropped %v", blockNumbers(leaving), gone)
	}
}

// TestCancelledReassignmentsLeaveNoFreeSlotTwice checks that cancelled reassignments leave no slot
// on the free list twice.
func TestCancelledReassignmentsLeaveNoFreeSlotTwice(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 2, Bytes: 4 * SlotUnit}}, "lru")
	put(tier, 1, upTo(1, 8)...)
	tier.Drop(testHash(1))
	for range 100 {
		tier.SetLowerAvailable(true)
		tier.Reserve(testHash(21), 2*SlotUnit)
		tier.SetLowerAvailable(false)
	}
	if z := tier.sizeClassOf(SlotUnit); z.slots != 8 || len(z.free) != 1 {
		t.Errorf("%d slots, %d on the free list", z.slots, len(z.free))
	}
}

// TestWatermarkPerSizeClass checks that blocks leave ahead of need if their size has no room, even
// if the tier has.
func TestWatermarkPerSizeClass(t *testing.T) {
	for name, tc := range map[string]struct {
		small, large []int
		then         func(*Tier)
		want         string
	}{
		"a free slab is room":             {upTo(1, 8), nil, nil, "[]"},
		"another size's slab is not room": {upTo(1, 8), []int{21}, nil, "[1 2]"},
		"each size separately":            {upTo(1, 8), []int{21, 22}, nil, "[1 2 21]"},
		"an emptied slab is room": {upTo(1, 8), []int{21, 22},
			func(t *Tier) { t.Drop(testHash(21)); t.Drop(testHash(22)) }, "[]"},
		"a slab being reassigned counts only its blocks": {upTo(1, 12), nil, func(t *Tier) {
			t.SetLowerAvailable(true)
			t.Reserve(testHash(21), 2*SlotUnit)
			for _, d := range t.SelectSlabDemotions()[:2] {
				t.DemotionDone(d.Slot, true)
			}
		}, "[5]"},
		"a slab being reassigned is room for its new owner": {upTo(1, 8), []int{21, 22}, func(t *Tier) {
			t.SetLowerAvailable(true)
			lookupAll(t, 21, 22)
			t.Reserve(testHash(23), 2*SlotUnit)
			t.SelectSlabDemotions()
		}, "[]"},
		"a cancelled demotion counts again": {upTo(1, 8), []int{21}, func(t *Tier) {
			t.SelectDemotions()
			t.Lookup([]Hash{testHash(1)})
		}, "[3]"},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}, Watermark: 0.75, Burst: 9}, "lru")
		put(tier, 1, tc.small...)
		put(tier, 2, tc.large...)
		if tc.then != nil {
			tc.then(tier)
		}
		if got := fmt.Sprint(blockNumbers(tier.SelectDemotions())); got != tc.want {
			t.Errorf("%s: selected %s, want %s", name, got, tc.want)
		}
	}
}

// TestRecoveredBlocksFixSlabSizes checks that recovered blocks decide which size a slab is assigned
// to.
func TestRecoveredBlocksFixSlabSizes(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 2, Bytes: 4 * SlotUnit}}, "lru")
	for _, tc := range []struct {
		slot        int32
		hash, units int
		want        bool
	}{{5, 1, 2, true}, {4, 2, 1, false}, {4, 3, 2, true}, {6, 4, 2, false}, {3, 5, 1, true}, {0, 6, 9, false}} {
		if got := tier.Recover(tc.slot, testHash(tc.hash), tc.units*SlotUnit); got != tc.want {
			t.Errorf("block %d of %d units in slot %d: %v", tc.hash, tc.units, tc.slot, got)
		}
	}
	if gone := put(tier, 1, 11, 12, 13); gone != nil {
		t.Errorf("dropped %v, want none", gone)
	}
	if gone := put(tier, 1, 14); !slices.Equal(gone, []int{1, 3}) && !slices.Equal(gone, []int{3, 1}) {
		t.Errorf("dropped %v, want blocks 1 and 3", gone)
	}
}

// TestCutSlabsWastesLittle checks that a tier has several slabs, and a slab of a large tier wastes
// little with common block sizes.
func TestCutSlabsWastesLittle(t *testing.T) {
	for _, head := range []int{0, SlotUnit} {
		for _, bytes := range []int64{1 << 20, 4 << 20, 64 << 20, 100<<20 + 5, 1 << 30, 16 << 30, 4 << 40} {
			s := CutSlabs(bytes)
			s.SlabHeader, s.SlotHeader = head, head
			if s.Bytes%SlotUnit != 0 || s.Count < 7 || int64(s.Count)*int64(s.Bytes) > bytes ||
				float64(s.Count)*float64(s.Bytes) < 0.85*float64(bytes) {
				t.Errorf("%d bytes: %+v", bytes, s)
			}
			if s.Slot(s.Count-1, s.Fit(1)-1) < 0 {
				t.Errorf("%d bytes: slot numbers overflow", bytes)
			}
			for _, block := range []int{48 << 10, 320 << 10, 2 << 20, 5 << 20, 8 << 20, 16 << 20} {
				if used := float64(s.Fit(block)*block) / float64(s.Bytes); bytes >= 1<<30 && used < 0.9 {
					t.Errorf("%d bytes: blocks of %[3]d bytes use %.2[2]f of a slab", bytes, used, block)
				}
			}
		}
	}
	if s := CutSlabs(100); s.Count != 0 || s.Fit(1) != 0 || s.Has(0, 1) {
		t.Errorf("100 bytes: %+v", s)
	}
}

// TestPinnedBlocksStayWhileSlabLeaves checks that a pinned block is not demoted while others of its size are about to
// leave with their slab.
func TestPinnedBlocksStayWhileSlabLeaves(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 2 * SlotUnit}, Watermark: 0.4, Burst: 9}, "lru")
	tier.SetLowerAvailable(true)
	for n := 1; n <= 2; n++ { // each in a slab of its own
		slot, _, _ := tier.Reserve(testHash(n), 2*SlotUnit)
		tier.Commit(slot)
	}
	tier.Pin(testHash(1))
	tier.Reserve(testHash(3), SlotUnit) // the next slab of this size is that of block 2
	if d := tier.SelectDemotions(); len(d) != 0 || !tier.Reassigning(SlotUnit) {
		t.Fatalf("selected %v, reassigning: %v", blockNumbers(d), tier.Reassigning(SlotUnit))
	}
	if got := fmt.Sprint(blockNumbers(tier.SelectSlabDemotions())); got != "[2]" {
		t.Errorf("with the slab leave %s, want [2]", got)
	}
}

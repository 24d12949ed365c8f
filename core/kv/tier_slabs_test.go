package kv

import (
	"fmt"
	"slices"
	"testing"
)

// put makes blocks of so many units resident, and returns which blocks were dropped for them.
func put(t *Tier, units int, blocks ...int) (gone []int) {
	for _, n := range blocks {
		slot, dropped, ok := t.Reserve(testHash(n), units*SlotUnit)
		if !ok {
			return append(gone, -n)
		}
		for _, d := range dropped {
			gone = append(gone, numbers([]Departure{{Hash: d.Hash}})...)
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

func wantAll(t *Tier, blocks ...int) {
	for _, n := range blocks {
		t.Want([]Hash{testHash(n)})
	}
}

// TestSlabsGoToWhoNeedsThem: what has to go for a block of another size. There are three slabs, each of four small blocks (1 to 12, in this
// order) or two large ones.
func TestSlabsGoToWhoNeedsThem(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*Tier) []int // returns what was dropped
		want []int
	}{
		"nothing while a slab is free":         {func(t *Tier) []int { return put(t, 2, 21) }, nil},
		"the coldest slab, and the rest of it": {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); return put(t, 2, 21, 22) }, []int{1, 2, 3, 4}},
		"not one that was wanted":              {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); wantAll(t, 1, 2, 3, 4); return put(t, 2, 21) }, []int{5, 6, 7, 8}},
		"on average":                           {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); wantAll(t, 4, 3); return put(t, 2, 21) }, []int{5, 6, 7, 8}},
		"but not one that has only begun to fill": {func(t *Tier) []int {
			put(t, 2, upTo(21, 24)...)
			for range 3 {
				wantAll(t, upTo(21, 24)...)
			}
			put(t, 1, 1)
			return put(t, 2, 25)
		}, []int{21}},
		"by when they were wanted last": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			for range 3 {
				wantAll(t, 1, 2, 3, 4)
			}
			wantAll(t, upTo(5, 12)...)
			return put(t, 2, 21)
		}, []int{1, 2, 3, 4}},
		"not one with a pin":         {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); t.Pin(testHash(3)); return put(t, 2, 21) }, []int{5, 6, 7, 8}},
		"nor one that is being read": {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); t.Read(testHash(3)); return put(t, 2, 21) }, []int{5, 6, 7, 8}},
		"nor one with a block that arrives": {func(t *Tier) []int {
			t.Reserve(testHash(20), SlotUnit)
			put(t, 1, upTo(1, 11)...)
			return put(t, 2, 21)
		}, []int{4, 5, 6, 7}},
		"an empty one first": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			for n := 9; n <= 12; n++ {
				t.Drop(testHash(n))
			}
			return put(t, 2, 21)
		}, nil},
		"a second where all there is colder": {func(t *Tier) []int { put(t, 1, upTo(1, 12)...); return put(t, 2, 21, 22, 23) }, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		"else the size's own that leaves next": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			put(t, 2, 21, 22)
			wantAll(t, upTo(5, 12)...)
			return put(t, 2, 23)
		}, []int{21}},
		"which may be its only one": {func(t *Tier) []int {
			put(t, 1, upTo(1, 12)...)
			put(t, 4, 31)
			wantAll(t, upTo(5, 12)...)
			return put(t, 4, 32)
		}, []int{31}},
		"and back again": {func(t *Tier) []int { put(t, 2, upTo(21, 26)...); return put(t, 1, upTo(1, 4)...) }, []int{21, 22}},
		"none where none can go": {func(t *Tier) []int {
			put(t, 4, 31, 32, 33)
			for n := 31; n <= 33; n++ {
				t.Pin(testHash(n))
			}
			return put(t, 1, 1)
		}, []int{-1}},
		"none for what is larger than any slab": {func(t *Tier) []int { return put(t, 5, 1) }, []int{-1}},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}}, "lru")
		if got := tc.then(tier); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v went, not %v", name, got, tc.want)
		}
	}
}

// TestSlabsAreNotPassedToAndFro: what a policy gives up first may have come just now. It is no reason to take a slab whose blocks were wanted before that, but after
// others of the size.
func TestSlabsAreNotPassedToAndFro(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}}, "s3-fifo")
	put(tier, 2, 21)
	wantAll(tier, 21)
	put(tier, 1, upTo(1, 8)...)
	put(tier, 2, 22)
	if gone := put(tier, 2, 23); !slices.Equal(gone, []int{22}) {
		t.Errorf("%v had to go", gone)
	}
}

// TestVacatedSlab: what becomes of the blocks of a slab that a large block needs, where there is a tier below. There are three slabs, of four small blocks or two large
// ones; 1 to 4 are in the coldest.
func TestVacatedSlab(t *testing.T) {
	large := testHash(21)
	left := func(gone bool) func(*Tier) {
		return func(t *Tier) {
			for _, d := range t.Evacuate() {
				t.Left(d.Slot, gone)
			}
		}
	}
	reserve := func(t *Tier) { t.Reserve(large, 2*SlotUnit) }
	var reading int32
	for name, tc := range map[string]struct {
		then []func(*Tier)
		ok   bool  // the large block has a slot then
		gone []int // small ones that are not there any more
		due  []int // that Evacuate has leave then
	}{
		"it waits":             {nil, false, nil, upTo(1, 4)},
		"until they are below": {[]func(*Tier){left(true)}, true, upTo(1, 4), nil},
		"the coldest first":    {[]func(*Tier){func(t *Tier) { wantAll(t, 2) }}, false, nil, []int{1, 3, 4, 2}},
		"once for all":         {[]func(*Tier){reserve, func(t *Tier) { t.Evacuate() }, reserve}, false, nil, nil},
		"it waits for those that are to follow": {[]func(*Tier){func(t *Tier) {
			for _, d := range t.Evacuate()[:3] {
				t.Left(d.Slot, true)
			}
		}}, false, upTo(1, 3), nil},
		"and for readers": {[]func(*Tier){func(t *Tier) { reading, _ = t.Read(testHash(2)) }, left(true)}, false, []int{1, 3, 4}, nil},
		"which can come meanwhile": {[]func(*Tier){func(t *Tier) {
			all := t.Evacuate()
			wantAll(t, 2)
			reading, _ = t.Read(testHash(2))
			for _, d := range all {
				t.Left(d.Slot, true)
			}
		}}, false, upTo(1, 4), nil},
		"and end": {[]func(*Tier){func(t *Tier) {
			all := t.Evacuate()
			wantAll(t, 2)
			reading, _ = t.Read(testHash(2))
			for _, d := range all {
				t.Left(d.Slot, true)
			}
		}, func(t *Tier) { t.Done(reading) }}, true, upTo(1, 4), nil},
		"what can not be copied is tried again": {[]func(*Tier){left(false)}, false, nil, upTo(1, 4)},
		"a pin calls it off":                    {[]func(*Tier){func(t *Tier) { t.Pin(testHash(2)) }}, false, nil, upTo(5, 8)},
		"also while they leave": {[]func(*Tier){func(t *Tier) {
			all := t.Evacuate()
			t.Pin(testHash(2))
			for _, d := range all {
				t.Left(d.Slot, true)
			}
		}}, false, []int{1, 3, 4}, upTo(5, 8)},
		"and its slots are the small ones' again": {[]func(*Tier){func(t *Tier) {
			all := t.Evacuate()
			for i, d := range all {
				if i == 2 {
					t.Pin(testHash(4))
				}
				t.Left(d.Slot, true)
			}
			put(t, 1, 13, 14, 15)
		}}, false, []int{1, 2, 3}, upTo(5, 8)},
		"those who leave are no reason to spare it": {[]func(*Tier){func(t *Tier) { t.Evacuate(); t.Cascade(false); t.Cascade(true) }}, false, nil, nil},
		"another size takes another":                {[]func(*Tier){func(t *Tier) { t.Reserve(testHash(31), 4*SlotUnit) }}, false, nil, upTo(1, 8)},
		"nor is a slot of it given out before":      {[]func(*Tier){func(t *Tier) { t.Drop(testHash(1)); put(t, 1, 13) }}, false, []int{1, 5}, upTo(2, 4)},
		"what is dropped from it is room":           {[]func(*Tier){func(t *Tier) { t.Flush() }}, false, upTo(1, 12), nil},
		"none below any more":                       {[]func(*Tier){func(t *Tier) { t.Cascade(false) }}, true, upTo(1, 4), nil},
		"none below after all":                      {[]func(*Tier){left(false), func(t *Tier) { t.Cascade(false) }}, true, upTo(1, 4), nil},
		"none below while they leave":               {[]func(*Tier){func(t *Tier) { t.Evacuate(); t.Cascade(false) }}, true, upTo(5, 8), nil},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}}, "lru")
		tier.Cascade(true)
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
		if due := numbers(tier.Evacuate()); ok != tc.ok || !slices.Equal(gone, tc.gone) || !slices.Equal(due, tc.due) {
			t.Errorf("%s: a slot is there: %v; %v are gone, and %v are to go", name, ok, gone, due)
		}
	}
}

// TestVacatedAheadOfNeed: a size that is above the watermark has a slab vacated for it that is colder than all that is its own; else it gives up its own.
func TestVacatedAheadOfNeed(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*Tier)
		want []int // blocks that leave
	}{
		"a colder slab":                {nil, upTo(1, 4)},
		"but not two at once":          {func(t *Tier) { t.Depart(); t.limits.Watermark = 0.2 }, []int{5, 6, 21, 22, 1, 2, 3, 4}},
		"none where nothing goes down": {func(t *Tier) { t.Cascade(false) }, []int{21}},
		"none that is not colder":      {func(t *Tier) { wantAll(t, upTo(1, 6)...) }, []int{21}},
		"an empty one is none": {func(t *Tier) {
			t.Drop(testHash(5))
			t.Drop(testHash(6))
			t.limits.Watermark = 0.4
		}, upTo(1, 4)},
		"nor below the watermark at all": {func(t *Tier) { t.Drop(testHash(22)) }, nil},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}, Watermark: 0.75, Burst: 9}, "lru")
		tier.Cascade(true)
		put(tier, 1, upTo(1, 6)...)
		put(tier, 2, 21, 22)
		if tc.then != nil {
			tc.then(tier)
		}
		if got := numbers(append(tier.Depart(), tier.Evacuate()...)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v leave, not %v", name, got, tc.want)
		}
	}
}

// TestBlocksTooLargeToLeave: blocks that do not fit below stay until they are dropped.
func TestBlocksTooLargeToLeave(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}, Watermark: 0.4, IdleSteps: 5, Burst: 9, Below: 3*SlotUnit - 1}, "lru")
	tier.Cascade(true)
	put(tier, 3, 31, 32)
	put(tier, 2, 21)
	for range 5 {
		tier.Tick()
	}
	if due := numbers(tier.Depart()); !slices.Equal(due, []int{21}) {
		t.Errorf("%v leave", due)
	}
	if gone := put(tier, 1, 1); !slices.Equal(gone, []int{31}) || tier.Vacating(SlotUnit) {
		t.Errorf("%v had to go", gone)
	}
}

// TestPinnedOnItsWayDown: a slab is not vacated of which a pinned block leaves, since that may come back.
func TestPinnedOnItsWayDown(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 1, Bytes: 2 * SlotUnit}, Watermark: 0.1, Burst: 9}, "lru")
	tier.Cascade(true)
	tier.Pin(testHash(1))
	put(tier, 1, 1)
	leaving := tier.Depart()
	if gone := put(tier, 2, 21); len(leaving) != 1 || !slices.Equal(gone, []int{-21}) || tier.Vacating(2*SlotUnit) {
		t.Errorf("%v leave; %v went", numbers(leaving), gone)
	}
}

// TestVacatedOften: what is called off leaves nothing behind.
func TestVacatedOften(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 2, Bytes: 4 * SlotUnit}}, "lru")
	put(tier, 1, upTo(1, 8)...)
	tier.Drop(testHash(1))
	for range 100 {
		tier.Cascade(true)
		tier.Reserve(testHash(21), 2*SlotUnit)
		tier.Cascade(false)
	}
	if z := tier.sizeOf(SlotUnit); z.slots != 8 || len(z.free) != 1 {
		t.Errorf("%d slots, of which %d are said to be free", z.slots, len(z.free))
	}
}

// TestWatermarkOfASize: blocks leave ahead of need where those of their size have no room, though the tier has.
func TestWatermarkOfASize(t *testing.T) {
	for name, tc := range map[string]struct {
		small, large []int
		then         func(*Tier)
		want         string
	}{
		"a free slab is room":         {upTo(1, 8), nil, nil, "[]"},
		"one that others have is not": {upTo(1, 8), []int{21}, nil, "[1 2]"},
		"each size by itself":         {upTo(1, 8), []int{21, 22}, nil, "[1 2 21]"},
		"so is one that they had":     {upTo(1, 8), []int{21, 22}, func(t *Tier) { t.Drop(testHash(21)); t.Drop(testHash(22)) }, "[]"},
		"nor one that is being vacated, but for what is in it": {upTo(1, 12), nil, func(t *Tier) {
			t.Cascade(true)
			t.Reserve(testHash(21), 2*SlotUnit)
			for _, d := range t.Evacuate()[:2] {
				t.Left(d.Slot, true)
			}
		}, "[5]"},
		"it is that of those who wait for it": {upTo(1, 8), []int{21, 22}, func(t *Tier) {
			t.Cascade(true)
			wantAll(t, 21, 22)
			t.Reserve(testHash(23), 2*SlotUnit)
			t.Evacuate()
		}, "[]"},
		"what came back counts again": {upTo(1, 8), []int{21}, func(t *Tier) {
			t.Depart()
			t.Want([]Hash{testHash(1)})
		}, "[3]"},
	} {
		tier := newTier(t, TierLimits{Slabs: Slabs{Count: 3, Bytes: 4 * SlotUnit}, Watermark: 0.75, Burst: 9}, "lru")
		put(tier, 1, tc.small...)
		put(tier, 2, tc.large...)
		if tc.then != nil {
			tc.then(tier)
		}
		if got := fmt.Sprint(numbers(tier.Depart())); got != tc.want {
			t.Errorf("%s: %s left, not %s", name, got, tc.want)
		}
	}
}

// TestRestoredSlabs: what an earlier life left decides which size a slab is given to.
func TestRestoredSlabs(t *testing.T) {
	tier := newTier(t, TierLimits{Slabs: Slabs{Count: 2, Bytes: 4 * SlotUnit}}, "lru")
	for _, tc := range []struct {
		slot        int32
		hash, units int
		want        bool
	}{{5, 1, 2, true}, {4, 2, 1, false}, {4, 3, 2, true}, {6, 4, 2, false}, {3, 5, 1, true}, {0, 6, 9, false}} {
		if got := tier.Restore(tc.slot, testHash(tc.hash), tc.units*SlotUnit); got != tc.want {
			t.Errorf("block %d of %d units in slot %d: %v", tc.hash, tc.units, tc.slot, got)
		}
	}
	if gone := put(tier, 1, 11, 12, 13); gone != nil {
		t.Errorf("%v had to go", gone)
	}
	if gone := put(tier, 1, 14); !slices.Equal(gone, []int{1, 3}) && !slices.Equal(gone, []int{3, 1}) {
		t.Errorf("%v had to go", gone)
	}
}

// TestCutSlabs: a tier is several slabs, and a slab of a large one loses little with blocks of common sizes.
func TestCutSlabs(t *testing.T) {
	for _, head := range []int{0, SlotUnit} {
		for _, bytes := range []int64{1 << 20, 4 << 20, 64 << 20, 100<<20 + 5, 1 << 30, 16 << 30, 4 << 40} {
			s := CutSlabs(bytes)
			s.Lead, s.Head = head, head
			if s.Bytes%SlotUnit != 0 || s.Count < 7 || int64(s.Count)*int64(s.Bytes) > bytes || float64(s.Count)*float64(s.Bytes) < 0.85*float64(bytes) {
				t.Errorf("%d bytes: %+v", bytes, s)
			}
			if s.Slot(s.Count-1, s.Fit(1)-1) < 0 {
				t.Errorf("%d bytes: too many slots to number", bytes)
			}
			for _, block := range []int{48 << 10, 320 << 10, 2 << 20, 5 << 20, 8 << 20, 16 << 20} {
				if used := float64(s.Fit(block)*block) / float64(s.Bytes); bytes >= 1<<30 && used < 0.9 {
					t.Errorf("%d bytes: %.2f of a slab is used by blocks of %d", bytes, used, block)
				}
			}
		}
	}
	if s := CutSlabs(100); s.Count != 0 || s.Fit(1) != 0 || s.Has(0, 1) {
		t.Errorf("%+v of 100 bytes", s)
	}
}

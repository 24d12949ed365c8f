package route

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestIndexAgainstSets drives an index and plain sets with the same random calls. Most blocks hash
// to the same few entries at the end of the table and at its start. The table and its entries grow.
func TestIndexAgainstSets(t *testing.T) {
	const slots = 70
	block := rapid.Custom(func(t *rapid.T) uint64 {
		n := rapid.Uint64Range(0, 24).Draw(t, "n")
		if n == 24 {
			return 0
		}
		return 62 + n%4 + initialEntries*(n/4)
	})
	rapid.Check(t, func(t *rapid.T) {
		x, room := newSlotIndex(), 64
		held := make([]map[uint64]bool, slots)
		for s := range held {
			held[s] = map[uint64]bool{}
		}
		some := func() []int { return []int{0, 1, 63, room - 1} } // slots in both words
		slot := func(t *rapid.T) int { return rapid.SampledFrom(some()).Draw(t, "slot") }
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				s := slot(t)
				for _, b := range rapid.SliceOfN(block, 0, 12).Draw(t, "blocks") {
					x.add(s, b)
					held[s][b] = true
				}
			},
			"evict": func(t *rapid.T) {
				s := slot(t)
				for _, b := range rapid.SliceOfN(block, 0, 12).Draw(t, "blocks") {
					x.remove(s, b)
					delete(held[s], b)
				}
			},
			"drop": func(t *rapid.T) {
				s := slot(t)
				x.removeSlot(s)
				clear(held[s])
			},
			"many": func(t *rapid.T) {
				s, from := slot(t), rapid.Uint64Range(0, 9).Draw(t, "from")
				for b := range uint64(40) {
					x.add(s, 1000*from+b)
					held[s][1000*from+b] = true
				}
			},
			"widen": func(*rapid.T) {
				room = slots
				x.growSlots(room)
			},
			"": func(t *rapid.T) {
				used := map[uint64]bool{}
				for _, s := range some() {
					got := x.blocks(s)
					for _, b := range got {
						used[b] = true
					}
					if slices.Sort(got); !slices.Equal(got, sorted(held[s])) {
						t.Fatalf("slot %d holds %v, not %v", s, got, sorted(held[s]))
					}
					for b := range held[s] {
						if _, p := x.find(b); p[0] != b || !holds(p, s) {
							t.Fatalf("block %d is not found", b)
						}
					}
				}
				if x.used != len(used) || 2*x.used > x.mask+1 {
					t.Fatalf("%d of %d entries in use for %d blocks", x.used, x.mask+1, len(used))
				}
			},
		})
	})
}

func sorted(set map[uint64]bool) []uint64 { return slices.Sorted(maps.Keys(set)) }

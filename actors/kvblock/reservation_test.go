package kvblock_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"troupe/actors/kvblock"
)

// TestReserveOfHeldBlockTouchesIt checks that reserving a block that the tier already holds counts
// as a use of it, but not as a hit.
func TestReserveOfHeldBlockTouchesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, kvblock.TierConfig{Name: "dram", Store: newStore(t, 3)})
		s.put(1, 2, 3)
		s.put(1) // already held
		s.put(4) // evicts 2, now the least recently used
		if st := s.status(); st.GetHits() != 0 || st.GetMisses() != 0 || st.GetResident() != 3 {
			t.Errorf("%v", st)
		}
		if got := s.has(1, 2, 3, 4); !slices.Equal(got, []int{1, 3, 4}) {
			t.Errorf("the tier holds %v", got)
		}
	})
}

package kvblock_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"troupe/actors/kvblock"
)

// TestReservedAgain: a block that a tier above asks room for and that is here stays, as if it had been wanted; but no prompt wanted it, and no hit is counted.
func TestReservedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, kvblock.TierConfig{Name: "dram", Store: newStore(t, 3)})
		s.put(1, 2, 3)
		s.put(1) // it is held
		s.put(4) // in the place of 2, which nobody has asked for since
		if st := s.status(); st.GetHits() != 0 || st.GetMisses() != 0 || st.GetResident() != 3 {
			t.Errorf("%v", st)
		}
		if got := s.has(1, 2, 3, 4); !slices.Equal(got, []int{1, 3, 4}) {
			t.Errorf("%v are here", got)
		}
	})
}

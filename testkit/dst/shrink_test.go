package dst_test

import (
	"slices"
	"testing"

	"troupe/testkit/dst"
)

// TestShrink checks that the relevant faults are kept, regardless of their position.
func TestShrink(t *testing.T) {
	all := make([]dst.Fault, 20)
	for i := range all {
		all[i].Count = i
	}
	for _, needed := range [][]int{{}, {0}, {19}, {3, 17}, {9, 10, 11}, {0, 5, 10, 15, 19}} {
		runs := 0
		got := dst.Shrink(all, func(some []dst.Fault) bool {
			runs++
			for _, n := range needed {
				if !slices.ContainsFunc(some, func(f dst.Fault) bool { return f.Count == n }) {
					return false
				}
			}
			return true
		})
		if len(got) != len(needed) || runs > 100 {
			t.Errorf("%d faults remain of %v after %d runs", len(got), needed, runs)
		}
	}
}

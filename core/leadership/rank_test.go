package leadership

import "testing"

// TestRankIsAnOrder checks that nodes of the same view have different ranks from 0, and that a node
// that is not up has none.
func TestRankIsAnOrder(t *testing.T) {
	up := []string{"a", "b", "c", "d"}
	for _, m := range []string{"m1", "m2", "m3", "m4", "m5"} {
		seen := make(map[int]bool)
		for _, node := range up {
			rank, ok := rankOf(node, m, up)
			if !ok || rank < 0 || rank >= len(up) || seen[rank] {
				t.Errorf("deployment %s, node %s: rank %d, %v", m, node, rank, ok)
			}
			seen[rank] = true
		}
	}
	if _, ok := rankOf("e", "m1", up); ok {
		t.Error("a node that is not up tries to lead")
	}
}

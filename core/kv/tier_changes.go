package kv

import "slices"

// Changes returns the slots whose blocks went, and the blocks that came and are here still, since the last call. A slot that is in both lists
// holds what the second one says.
func (t *Tier) Changes() (evicted []int32, committed []Committed) {
	evicted = t.evicted
	seen := make(map[int32]bool, len(t.committed))
	for _, c := range slices.Backward(t.committed) {
		if at, ok := t.byHash[c.Hash]; ok && at == c.Block && t.State(c.Hash) != Arriving && !seen[at] {
			seen[at] = true
			committed = append(committed, c)
		}
	}
	slices.Reverse(committed)
	t.evicted, t.committed = nil, nil
	return evicted, committed
}

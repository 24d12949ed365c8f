package kv

import "slices"

// Changes returns the slots whose blocks were evicted and the blocks that were committed and are
// still present, since the last call. For a slot in both lists, committed has the current content.
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

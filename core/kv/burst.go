package kv

const (
	needSteps = 16   // within which places are taken at once: about as long as it takes to copy blocks down
	needHolds = 1024 // steps, and at most twice as many, for which it is expected again
	needMost  = 0.5  // of all blocks, for which places are made ahead
)

// Needs foresees how many places are taken at once, as by a long prompt: as many as were, not long ago. The zero value has seen nothing.
type Needs struct {
	since, began uint64 // step, and allocations until then, when the steps that are looked at together began
	turned       uint64 // step in which now was begun
	now, before  int    // most places that were taken at once, since then, and as long before
}

// See is told how many steps there were and how many blocks were allocated, so far.
func (n *Needs) See(steps, allocated uint64) {
	n.now = max(n.now, int(allocated-n.began))
	if steps-n.since >= needSteps {
		n.since, n.began = steps, allocated
	}
	if steps-n.turned >= needHolds {
		n.turned, n.now, n.before = steps, 0, n.now
	}
}

// Watermark is the share of so many blocks above which they leave, where share was asked for: lower, if more places are needed at once than are above that, so that what is
// evicted for them is below by then.
func (n *Needs) Watermark(share float64, blocks int) float64 {
	need := min(float64(max(n.now, n.before))/float64(max(blocks, 1)), needMost)
	return min(share, 1-need)
}

package kv

const (
	// burstWindow is the number of steps whose allocations count as one burst, about as long as
	// offloading takes.
	burstWindow = 16
	// burstPeriod is the number of steps for which a burst is expected to recur; at most twice as
	// many pass.
	burstPeriod = 1024
	// maxBurstShare is the largest share of all blocks kept free for a burst.
	maxBurstShare = 0.5
)

// BurstEstimator predicts how many blocks are allocated at once, for example for a long prompt. The
// prediction is the maximum of the recent past. The zero value has observed nothing.
type BurstEstimator struct {
	windowStep, windowAllocated uint64 // step and allocations at the start of the window
	periodStep                  uint64 // step at which current was started
	current, previous           int    // largest burst in this period and in the one before
}

// Observe records the number of steps and of allocated blocks so far.
func (n *BurstEstimator) Observe(steps, allocated uint64) {
	n.current = max(n.current, int(allocated-n.windowAllocated))
	if steps-n.windowStep >= burstWindow {
		n.windowStep, n.windowAllocated = steps, allocated
	}
	if steps-n.periodStep >= burstPeriod {
		n.periodStep, n.current, n.previous = steps, 0, n.current
	}
}

// Watermark returns the share of the pool above which blocks are offloaded. It is at most share,
// and lower if a burst needs more blocks than that leaves free. Blocks that the burst evicts then
// already have a copy in the lower tier.
func (n *BurstEstimator) Watermark(share float64, blocks int) float64 {
	need := min(float64(max(n.current, n.previous))/float64(max(blocks, 1)), maxBurstShare)
	return min(share, 1-need)
}

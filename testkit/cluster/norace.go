//go:build !race

package cluster

// raceEnabled reports whether this binary and the nodes it builds use the race detector.
const raceEnabled = false

// Sizes of a test load that keeps two cores busy for about a second, so that faults can happen during it, and a
// factor for timeouts. They allow for the race detector, which slows nodes down.
const (
	Streams      = 64
	TimeScale    = 1 // factor for all timeouts
	StreamTokens = 160
)

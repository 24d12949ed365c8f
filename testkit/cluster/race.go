//go:build race

package cluster

// raceEnabled reports whether this binary and the nodes it builds use the race detector.
const raceEnabled = true

// The size of a load that keeps two cores busy for about a second, so that faults can happen during
// it. The race detector slows a node down by a factor of ten.
const (
	Streams      = 16
	TimeScale    = 3 // factor for all timeouts
	StreamTokens = 80
)

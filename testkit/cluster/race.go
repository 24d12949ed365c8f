//go:build race

package cluster

// raceEnabled reports whether this binary and the nodes it builds use the race detector.
const raceEnabled = true

// A factor for timeouts, and the length of a stream of a test load, during which a fault can happen. They allow for
// the race detector, which slows nodes down.
const (
	TimeScale    = 3 // factor for all timeouts
	StreamTokens = 80
)

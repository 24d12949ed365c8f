//go:build !race

package cluster

// raced says whether this binary has the race detector; the processes that it starts then have it too.
const raceEnabled = false

// A load that keeps two cores busy for a second or so, long enough for something to happen to it: this many streams at once, of so many
// tokens. The race detector makes a node ten times as slow.
const (
	Streams      = 64
	TimeScale    = 1 // times as long as usual may anything take
	StreamTokens = 160
)

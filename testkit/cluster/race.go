//go:build race

package cluster

// raced says whether this binary has the race detector; the processes that it starts then have it too.
const raced = true

// A load that keeps two cores busy for a second or so, long enough for something to happen to it: this many streams at once, of so many
// tokens. The race detector makes a node ten times as slow.
const (
	Streams      = 16
	Patience     = 3 // times as long as usual may anything take
	StreamTokens = 80
)

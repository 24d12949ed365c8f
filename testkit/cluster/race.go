//go:build race

package cluster

// raced says whether this binary has the race detector; the processes that it starts then have it too.
const raced = true

// StreamTokens make a stream that lasts a second or so when 64 of them share two cores: long enough for something to happen to it.
const StreamTokens = 40

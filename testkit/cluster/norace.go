//go:build !race

package cluster

// raced says whether this binary has the race detector; the processes that it starts then have it too.
const raced = false

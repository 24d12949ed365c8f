//go:build !race

package node_test

// raceEnabled reports whether the race detector is on.
const raceEnabled = false

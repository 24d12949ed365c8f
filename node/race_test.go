//go:build race

package node_test

// raceEnabled reports whether the race detector is on, under which an engine takes three times as
// long.
const raceEnabled = true

package restore

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTable checks that doc.go has the transition table, that each row can apply, and that each state
// is entered and left.
func TestTable(t *testing.T) {
	transitions.Documented(t, "state", rows, transitions.Named(map[string][]State{
		"(copying)": copying, "restoring … preempted": {Restoring, Ready, Overlapped, Failed, Preempted},
	}))
	transitions.Sound(t, rows)
	for s := Gone; s <= Abandoned; s++ {
		transitions.Connected(t, rows, s)
	}
}

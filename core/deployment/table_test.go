package deployment

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "phase", rows,
		transitions.Named(map[string][]Phase{"starting … draining": running, "starting … stopping": known}))
	transitions.Documented(t, "state", stateRows, transitions.List)
	transitions.Documented(t, "wake", wakeRows, transitions.List)
	transitions.Sound(t, rows, stateRows, wakeRows)
}

package planner

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTable checks that doc.go has the transition table, and that each row can apply.
func TestTable(t *testing.T) {
	transitions.Documented(t, "state", rows, transitions.Named(map[string][]State{
		"any": anyState, "in a round": inRound, "all but idle": busy,
	}))
	transitions.Sound(t, rows)
}

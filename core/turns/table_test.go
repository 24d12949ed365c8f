package turns

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTable checks that doc.go has the transition table, and that each row can apply.
func TestTable(t *testing.T) {
	transitions.Documented(t, "state", rows,
		transitions.Named(map[string][]State{"present": present, "with a turn": holding, "asked": asked}))
	transitions.Sound(t, rows)
}

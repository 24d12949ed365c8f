package wake

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTable checks that doc.go has the transition table, and that each row can apply.
func TestTable(t *testing.T) {
	transitions.Documented(t, "state", rows, transitions.List)
	transitions.Sound(t, rows)
}

package session

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTable checks that doc.go has the transition table, and that each row can apply.
func TestTable(t *testing.T) {
	transitions.Documented(t, "state", rows,
		transitions.Named(map[string][]State{
			"routing … waiting": unassigned, "routing … serving": live, "created … serving": begun, "any": all,
		}))
	transitions.Sound(t, rows)
}

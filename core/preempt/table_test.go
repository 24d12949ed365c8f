package preempt

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTable checks that doc.go has the transition table, and that each row can apply.
func TestTable(t *testing.T) {
	transitions.Documented(t, "phase", rows, transitions.Named(map[string][]Phase{
		"fencing … saving": busy, "fencing … freeing": begun,
	}))
	transitions.Sound(t, rows)
}

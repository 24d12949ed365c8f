package tier

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	for of, rows := range rows {
		transitions.Documented(t, Object(of).String(), rows, transitions.List)
		transitions.Sound(t, rows)
	}
}

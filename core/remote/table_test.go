package remote

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "lookup", lookupRows, transitions.List)
	transitions.Documented(t, "fetch", fetchRows, transitions.List)
	transitions.Sound(t, lookupRows, fetchRows)
}

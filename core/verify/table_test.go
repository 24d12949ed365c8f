package verify

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "load", loadRows, transitions.List)
	transitions.Sound(t, loadRows)
	transitions.Documented(t, "record", recordRows, transitions.List)
	transitions.Sound(t, recordRows)
}

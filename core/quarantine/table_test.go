package quarantine

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "state", rows, transitions.Named(map[string][]State{"any": all}))
	transitions.Documented(t, "self-test", testRows, transitions.List)
	transitions.Documented(t, "suspicion", suspicionRows, transitions.List)
	transitions.Sound(t, rows, testRows, suspicionRows)
}

package router

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, that each row can apply, and that each event
// that a table names has a row without a guard in every state but absent.
func TestTables(t *testing.T) {
	transitions.Documented(t, "state", syncTable, transitions.Named(map[string][]Sync{"member": members}))
	transitions.Documented(t, "state", contactTable, transitions.Named(map[string][]Contact{"any": contacts}))
	transitions.Documented(t, "state", phaseTable, transitions.Named(map[string][]Phase{"any": phases}))
	transitions.Sound(t, syncTable, contactTable, phaseTable)
	transitions.Total(t, syncTable, Absent)
	transitions.Total[Contact](t, contactTable)
	transitions.Total[Phase](t, phaseTable)
}

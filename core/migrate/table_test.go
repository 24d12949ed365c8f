package migrate

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "state", sourceTable,
		transitions.Named(map[string][]SourceState{"offering … resuming": leaving}))
	transitions.Documented(t, "state", targetTable, transitions.Named(map[string][]TargetState{
		"receiving … refused": timed, "postponed … releasing": known, "without a transfer": sinkless,
		"any other": unknown, "closing … gone": past,
	}))
	transitions.Sound(t, sourceTable, targetTable)
}

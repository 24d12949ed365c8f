package lora

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "state", rows, transitions.Named(map[string][]State{"registered": registered}))
	transitions.Documented(t, "state", pinTable, transitions.Named(map[string][]pinState{
		"requested … retried": attached, "refused … may-retry": {refused, noRoom, mayRetry}}))
	transitions.Sound(t, rows, pinTable)
}

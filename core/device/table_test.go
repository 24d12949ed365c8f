package device

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "state", leases, transitions.Named(map[string][]Phase{
		"absent … opening": notLoaded, "inspecting … opening": loading,
	}))
	transitions.Documented(t, "KV memory", kvTable, transitions.Named(map[string][]KV{"steady … resizing": used}))
	transitions.Documented(t, "adapters", adapterTable, transitions.List)
	transitions.Sound(t, leases, kvTable, adapterTable)
}

package replica

import (
	"testing"

	"troupe/testkit/transitions"
)

// TestTables checks that doc.go has the transition tables, and that each row can apply.
func TestTables(t *testing.T) {
	transitions.Documented(t, "state", lifeTable, transitions.Named(map[string][]State{"any": anyState,
		"confirming … saved": serviced, "serving … standby": running, "serving … draining": saveable}))
	transitions.Documented(t, "state", stepTable, transitions.Named(map[string][]StepState{"any": anyStep}))
	transitions.Documented(t, "state", turnTable, transitions.Named(map[string][]TurnState{"any": anyTurn,
		"held": held}))
	transitions.Documented(t, "state", memoryTable, transitions.Named(map[string][]MemoryState{"any": anyMemory}))
	transitions.Documented(t, "state", leaseTable, transitions.Named(map[string][]PoolState{"any": anyLease}))
	transitions.Documented(t, "state", faultTable, transitions.Named(map[string][]FaultState{"any": anyFault}))
	transitions.Sound(t, lifeTable, stepTable, turnTable, memoryTable, leaseTable, faultTable)
}

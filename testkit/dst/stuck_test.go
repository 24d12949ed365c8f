package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestCrashDuringStuckStep checks the turns of a device while a replica whose actor has crashed waits for its
// step, which does not end: its turn is overdue, and another replica runs.
func TestCrashDuringStuckStep(t *testing.T) {
	o := options(119, 14)
	o.Faults = []dst.Fault{
		{At: 2229 * time.Millisecond, Kind: dst.LoseDevice, Node: "n1", For: 7117 * time.Millisecond},
		{At: 2683 * time.Millisecond, Kind: dst.StickStep, Node: "n0", For: 29553 * time.Millisecond},
		{At: 5954 * time.Millisecond, Kind: dst.CrashActor, Node: "n0", Actor: "replica", After: true},
	}
	r := run(t, o)
	if len(r.Failures) > 0 {
		t.Errorf("%q", r.Failures)
	}
	if r.Counts["turns overdue"] == 0 {
		t.Error("no turn was overdue")
	}
}

// TestMovedDuringStuckStep checks that nothing is left of a replica whose node loses the store while
// a step does not end: another node takes over its deployment, and the replica ends with the step.
func TestMovedDuringStuckStep(t *testing.T) {
	for seed, kind := range map[uint64]dst.FaultKind{4: dst.Outage, 5: dst.Isolate} {
		o := options(seed, 0)
		o.Faults = []dst.Fault{{At: time.Second, Kind: dst.StickStep, Node: "n1", For: 25 * time.Second},
			{At: 1100 * time.Millisecond, Kind: kind, Node: "n1", For: 5 * time.Second}}
		if r := run(t, o); len(r.Failures) > 0 {
			t.Errorf("seed %d, %s: %q", seed, kind, r.Failures)
		}
	}
}

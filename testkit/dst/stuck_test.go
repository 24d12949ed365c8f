package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestMovedDuringStuckStep checks that nothing is left of a replica whose node loses the store while
// a step does not end: another node takes over its deployment, and the replica ends with the step.
func TestMovedDuringStuckStep(t *testing.T) {
	for _, seed := range []uint64{1, 3, 4, 5} {
		for _, kind := range []dst.FaultKind{dst.Outage, dst.Isolate} {
			o := options(seed, 0)
			o.Faults = []dst.Fault{{At: time.Second, Kind: dst.StickStep, Node: "n1", For: 25 * time.Second},
				{At: 1100 * time.Millisecond, Kind: kind, Node: "n1", For: 5 * time.Second}}
			if r := run(t, o); len(r.Failures) > 0 {
				t.Errorf("seed %d, %s: %q", seed, kind, r.Failures)
			}
		}
	}
}

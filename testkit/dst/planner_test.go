package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestPlanner lets the planner choose the numbers of replicas, while it crashes, loses its lease, and the
// store is away or slow.
func TestPlanner(t *testing.T) {
	scenario(t, dst.Options{
		Count: 16, Calls: 120, Elastic: true, Actors: []string{"planner", "planner", "router", "deployment"},
		Kinds: []dst.FaultKind{
			dst.CrashActor, dst.CrashActor, dst.CrashInJob, dst.Outage, dst.Isolate, dst.SlowStore, dst.StallStore,
			dst.CrashNode, dst.LoseAnswer,
		},
	}, 1, 2, 3, 4, 5, 6)
}

package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestPreempt preempts replicas, while the actors that take part and nodes crash, sequences migrate,
// models go to standby and are parked, and replicas are scaled.
func TestPreempt(t *testing.T) {
	scenario(t, dst.Options{
		Count: 24,
		Kinds: []dst.FaultKind{
			dst.Preempt, dst.Preempt, dst.Preempt, dst.Preempt, dst.Preempt, dst.CrashActor, dst.CrashActor,
			dst.CrashActor, dst.CrashNode, dst.Migrate, dst.Scale, dst.Restart, dst.Standby, dst.Park, dst.Cut,
		},
		Actors: []string{"replica", "replica", "router", "deployment", "deployment", "session", "engine", "deployments",
			"replicas", "gpu", "tier", "hbm"},
	}, 1, 2, 3, 4, 5, 6, 102, 137)
}

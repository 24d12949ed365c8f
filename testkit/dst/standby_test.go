package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestStandby puts models and single replicas on standby and activates them, while actors and nodes
// crash, sequences migrate, and files are replaced.
func TestStandby(t *testing.T) {
	scenario(t, dst.Options{
		Count: 14,
		Kinds: []dst.FaultKind{
			dst.Standby, dst.Standby, dst.Standby, dst.Standby, dst.CrashActor, dst.CrashActor, dst.CrashNode,
			dst.Migrate, dst.Restart, dst.Scale, dst.Redeploy,
		},
		Actors: []string{"replica", "gpu", "engine", "deployment", "replicas", "router"},
	}, 1, 2, 3, 4, 9, 25, 66)
}

// TestSwitch switches devices between models that have replicas there, while actors and nodes crash.
func TestSwitch(t *testing.T) {
	scenario(t, dst.Options{
		Count: 14,
		Kinds: []dst.FaultKind{
			dst.Switch, dst.Switch, dst.Switch, dst.Switch, dst.Standby, dst.CrashActor, dst.CrashActor, dst.CrashNode,
			dst.Restart, dst.Migrate,
		},
		Actors: []string{"replica", "gpu", "engine", "deployment", "replicas", "router"},
	}, 1, 2, 3, 4)
}

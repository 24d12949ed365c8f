package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestLeadership deletes and creates deployments while their leaders crash, stop, and lose the store.
func TestLeadership(t *testing.T) {
	scenario(t, dst.Options{
		Count: 20, Actors: []string{"deployments", "deployment"},
		Kinds: []dst.FaultKind{
			dst.Outage, dst.Isolate, dst.CrashActor, dst.CrashActor, dst.Delete, dst.StopNode,
		},
	}, 11, 13, 32)
}

// TestDeploymentCrashes crashes the actors of deployments so often that their leaders give them up.
func TestDeploymentCrashes(t *testing.T) {
	o := dst.Options{Calls: 40, Load: 20 * time.Second}
	for i := range 8 {
		for _, node := range nodeNames {
			at := time.Duration(1+i) * 1500 * time.Millisecond
			o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.CrashActor, Node: node, Actor: "deployment"})
		}
	}
	reaches(t, o, "leadership: leading ended (held)")
}

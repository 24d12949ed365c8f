package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestDeleteWeights deletes models with their weights and creates them again: first without other faults, so that
// no device has the weights in between, then while actors and nodes crash and the store is away.
func TestDeleteWeights(t *testing.T) {
	scenario(t, dst.Options{Faults: []dst.Fault{
		{At: 4 * time.Second, Kind: dst.DeleteWeights, Node: "n0", Model: "m", For: 5 * time.Second},
		{At: 10 * time.Second, Kind: dst.DeleteWeights, Node: "n0", Model: "k", For: 3 * time.Second},
	}}, 1)
	scenario(t, dst.Options{
		Count: 20,
		Kinds: []dst.FaultKind{
			dst.DeleteWeights, dst.DeleteWeights, dst.DeleteWeights, dst.Delete, dst.Park, dst.Standby, dst.Scale,
			dst.Redeploy, dst.CrashActor, dst.CrashActor, dst.CrashNode, dst.Outage, dst.LoseBucket, dst.RollBack,
			dst.Cut, dst.Migrate,
		},
		Actors: []string{"deployment", "deployments", "replicas", "gpu", "replica"},
	}, 1, 2)
}

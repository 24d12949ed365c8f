package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestDamagedWeights damages weights on their way to the devices, so that no checksum shows it, while models
// are parked and activated, actors and nodes crash, and the store is lost. Clients see only exact tokens.
func TestDamagedWeights(t *testing.T) {
	seen := scenario(t, dst.Options{
		Count: 24,
		Kinds: []dst.FaultKind{
			dst.DamageLoads, dst.DamageLoads, dst.DamageLoads, dst.DamageLoads, dst.Park, dst.Park, dst.Park, dst.Park,
			dst.Evict, dst.Scale, dst.Scale, dst.CrashActor, dst.CrashActor, dst.CrashNode, dst.Redeploy,
			dst.LoseBucket, dst.Outage, dst.Standby,
		},
		Actors: []string{"hostcache", "gpu", "gpu", "replica", "deployment"},
	}, 3, 8, 10)
	if seen["weights rejected"] == 0 || seen["weights verified"] == 0 || seen["weights recorded"] == 0 {
		t.Errorf("%d loads recorded, %d verified, %d rejected", seen["weights recorded"], seen["weights verified"],
			seen["weights rejected"])
	}
	t.Logf("%d loads recorded, %d verified, %d rejected", seen["weights recorded"], seen["weights verified"],
		seen["weights rejected"])
}

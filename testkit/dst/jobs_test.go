package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestCrashesInJobs crashes actors while a job of theirs is in flight, so that it reports to the next
// incarnation.
func TestCrashesInJobs(t *testing.T) {
	scenario(t, dst.Options{
		Count: 60, Calls: 60, Actors: []string{"replica", "copier", "gpu", "gpu", "hbm", "tier", "deployment",
			"deployments", "replicas", "adapters", "slot", "planner", "router", "engine", "hostcache", "session"},
		Kinds: []dst.FaultKind{
			dst.CrashInJob, dst.CrashInJob, dst.CrashInJob, dst.CrashInJob, dst.CrashInJob, dst.CrashActor,
			dst.CrashActor, dst.Scale, dst.Migrate, dst.Sleep, dst.Offload, dst.Redeploy, dst.FlushTier,
			dst.RestorePrefix, dst.BreakFiles, dst.Standby, dst.Park, dst.BreakDisk, dst.QuarantineDevice,
		},
	}, 15)
}

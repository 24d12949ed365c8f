package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestWakeLevels lets models sleep, and parks them, puts them on standby, switches devices between them
// and frees their weights, while requests wake them from each of these levels.
func TestWakeLevels(t *testing.T) {
	scenario(t, dst.Options{
		Count: 24,
		Kinds: []dst.FaultKind{
			dst.Sleep, dst.Sleep, dst.Sleep, dst.Park, dst.Park, dst.Standby, dst.Standby, dst.Switch, dst.Evict,
		},
	}, 3)
}

// TestWakeLevelsFaults does so while the actors that take part and nodes crash, the store is away, and
// loads fail.
func TestWakeLevelsFaults(t *testing.T) {
	scenario(t, dst.Options{
		Count: 30,
		Kinds: []dst.FaultKind{
			dst.Sleep, dst.Sleep, dst.Sleep, dst.Park, dst.Park, dst.Standby, dst.Standby, dst.Switch, dst.Evict,
			dst.CrashActor, dst.CrashActor, dst.CrashActor, dst.CrashNode, dst.Outage, dst.LoseAnswer, dst.Preempt,
			dst.FailLoads, dst.Restart,
		},
		Actors: []string{
			"deployments", "deployment", "router", "session", "gpu", "hostcache", "replica", "replicas",
		},
	}, 3)
}

package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestSleep puts deployments to sleep while requests arrive, which wake them. None of the requests may
// be lost, and no replica may be left of a deployment that sleeps.
func TestSleep(t *testing.T) {
	scenario(t, dst.Options{Count: 8, Kinds: []dst.FaultKind{dst.Sleep}}, 4)
}

// TestSleepFaults does so while the actors that wake them crash, and the store is away.
func TestSleepFaults(t *testing.T) {
	scenario(t, dst.Options{
		Count: 20, Actors: []string{"deployments", "deployment", "router", "session"},
		Kinds: []dst.FaultKind{
			dst.Sleep, dst.Sleep, dst.CrashActor, dst.CrashActor, dst.Evict, dst.Outage, dst.CrashNode,
		},
	}, 3, 5)
}

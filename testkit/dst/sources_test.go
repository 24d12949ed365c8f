package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestSources loads weights from other devices and nodes, while folders are lost, reads fail or hang, weights
// are evicted, and the actors and nodes that take part crash.
func TestSources(t *testing.T) {
	scenario(t, dst.Options{
		Count: 70, Sources: true,
		Kinds: []dst.FaultKind{
			dst.LoseFolder, dst.LoseFolder, dst.LoseFolder, dst.LoseFolder, dst.FailReads, dst.HangRead,
			dst.HangRead, dst.HangRead, dst.HangRead, dst.HangRead, dst.HangRead, dst.LoseSecond, dst.LoseDevice,
			dst.Scale, dst.Scale, dst.Scale, dst.Scale, dst.Scale, dst.Evict, dst.Evict, dst.Evict, dst.Park,
			dst.Redeploy, dst.Cut, dst.CrashActor, dst.CrashActor, dst.CrashInJob, dst.CrashNode, dst.QuarantineDevice,
		},
		Actors: []string{"gpu", "gpu", "hostcache", "replica", "deployment", "replicas"},
	}, 4, 5, 16, 17)
}

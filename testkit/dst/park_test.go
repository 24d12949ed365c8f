package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestPark parks models and activates them, while the actors that take part and nodes crash, images are
// damaged, files are replaced, and loads fail.
func TestPark(t *testing.T) {
	scenario(t, dst.Options{
		Count: 24,
		Kinds: []dst.FaultKind{
			dst.Park, dst.Park, dst.Park, dst.Park, dst.CrashActor, dst.CrashActor, dst.CrashActor, dst.CrashNode,
			dst.DamageImages, dst.DamageImages,
			dst.DamageImages, dst.DamageImages, dst.Redeploy, dst.FailLoads, dst.Restart, dst.LoseDevice, dst.Delete,
		},
		Actors: []string{"hostcache", "hostcache", "gpu", "replica", "deployment", "deployments", "replicas"},
	}, 3, 4)
}

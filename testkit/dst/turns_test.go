package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// turnFaults put two models on a device, and crash those who take part in turns.
var turnFaults = dst.Options{
	Count: 25, Kinds: []dst.FaultKind{dst.Scale, dst.Scale, dst.CrashActor, dst.CrashActor, dst.CrashActor,
		dst.HangStep, dst.SlowDevice, dst.Restart, dst.Pause},
	Actors: []string{"gpu", "replica", "replicas", "engine"},
}

// TestTurns lets replicas of a device take turns while the actors of the device, of replicas, of their
// group and of engines crash, and while steps hang.
func TestTurns(t *testing.T) {
	scenario(t, turnFaults, 2, 3)
}

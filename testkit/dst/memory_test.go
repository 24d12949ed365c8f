package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestScarceMemory lets replicas yield and regain KV memory while models come and go, and while
// devices and actors fail.
func TestScarceMemory(t *testing.T) {
	scenario(t, dst.Options{
		Count: 25, Calls: 120, DeviceBytes: 40 << 20, MaxSequences: 24, Actors: []string{"replica", "gpu", "hbm"},
		Kinds: []dst.FaultKind{
			dst.Scale, dst.Redeploy, dst.FailAllocs, dst.HangStep, dst.Pause, dst.CrashActor,
			dst.CrashActor, dst.CrashActor, dst.SlowDevice, dst.Cut,
		},
	}, 12, 18, 457)
}

// TestLateAdapters lets replicas lease memory for adapters when the first is needed, while devices
// have no memory, are lost, and change their models.
func TestLateAdapters(t *testing.T) {
	scenario(t, dst.Options{
		Count: 20, DeviceBytes: 40 << 20, MaxSequences: 24, LateAdapters: true, Actors: []string{"gpu"},
		Kinds: []dst.FaultKind{
			dst.FailAllocs, dst.Scale, dst.Restart, dst.LoseDevice, dst.CrashActor,
			dst.Redeploy,
		},
	}, 1, 4)
}

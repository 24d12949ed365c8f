package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestMigrationFails moves sequences while replicas and their copiers crash, memory is short, and
// devices and links are slow, cut, or lost.
func TestMigrationFails(t *testing.T) {
	scenario(t, dst.Options{
		Count: 30, Actors: []string{"copier", "replica"},
		Kinds: []dst.FaultKind{
			dst.Migrate, dst.CrashActor, dst.CrashActor, dst.Cut, dst.Pause, dst.FailAllocs,
			dst.SlowDevice, dst.LoseDevice,
		},
	}, 2, 3, 8, 59)
}

// TestMigrationOfFailedSteps moves sequences while steps fail.
func TestMigrationOfFailedSteps(t *testing.T) {
	scenario(t, dst.Options{
		Count: 40,
		Kinds: []dst.FaultKind{
			dst.FailSteps, dst.Migrate,
		},
	}, 2, 3, 14, 18)
}

// TestMigrationOfLongSequences moves sequences with long prompts and outputs.
func TestMigrationOfLongSequences(t *testing.T) {
	scenario(t, dst.Options{
		Count: 40, Busy: true, Actors: []string{"copier"},
		Kinds: []dst.FaultKind{
			dst.Migrate, dst.SlowDevice, dst.Cut, dst.CrashActor, dst.Offload,
			dst.RestorePrefix,
		},
	}, 14, 26)
}

// TestMigrationOfCrashingTransfers moves long sequences while the actors that move their blocks crash.
func TestMigrationOfCrashingTransfers(t *testing.T) {
	scenario(t, dst.Options{
		Count: 40, Busy: true, Actors: []string{"transfers"},
		Kinds: []dst.FaultKind{
			dst.Migrate, dst.Migrate, dst.CrashActor,
		},
	}, 3, 4)
}

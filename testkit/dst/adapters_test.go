package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestAdapters changes and pins adapters while their files are broken and their actors crash.
func TestAdapters(t *testing.T) {
	scenario(t, dst.Options{
		Count: 40, Actors: []string{"adapters", "slot"},
		Kinds: []dst.FaultKind{
			dst.BreakFiles, dst.Register, dst.DeleteAdapter, dst.PinAdapter, dst.CrashActor,
			dst.CrashActor, dst.Restart,
		},
	}, 4, 8)
}

// TestAdaptersWithoutMemory does the same while devices have no memory. Seed 13 once sent
// the same pin again and again without time passing.
func TestAdaptersWithoutMemory(t *testing.T) {
	scenario(t, dst.Options{
		Count: 40, Actors: []string{"adapters", "slot"},
		Kinds: []dst.FaultKind{
			dst.BreakFiles, dst.Register, dst.DeleteAdapter, dst.PinAdapter, dst.CrashActor,
			dst.CrashActor, dst.FailAllocs, dst.Restart,
		},
	}, 2, 13)
}

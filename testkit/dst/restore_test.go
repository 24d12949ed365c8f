package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestRestoreFails restores, pins and drops stored blocks while disks, links, tiers and nodes fail.
func TestRestoreFails(t *testing.T) {
	scenario(t, dst.Options{
		Count: 60, Calls: 60, Actors: []string{"copier", "tier"},
		Kinds: []dst.FaultKind{
			dst.Offload, dst.RestorePrefix, dst.PinPrefix, dst.FlushTier, dst.BreakDisk,
			dst.Cut, dst.CrashActor, dst.CrashActor, dst.CrashNode,
		},
	}, 3, 38)
}

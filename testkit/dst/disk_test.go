package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestRestartOnBrokenDisk checks that the cluster serves when a node starts again on a disk that
// fails: with its tier, if that can be opened, or when the disk works again.
func TestRestartOnBrokenDisk(t *testing.T) {
	for seed, state := range []dst.DiskState{dst.DiskSlow, dst.DiskNoReads, dst.DiskNoWrites, dst.DiskFull} {
		o := options(uint64(seed+1), 0)
		o.Faults = []dst.Fault{
			{At: 2 * time.Second, Kind: dst.BreakDisk, Node: "n0", Disk: state, For: 10 * time.Second},
			{At: 3 * time.Second, Kind: dst.CrashNode, Node: "n0", For: time.Second}}
		if r := run(t, o); len(r.Failures) > 0 {
			t.Errorf("%s: %q", state, r.Failures)
		}
	}
}

package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestDamagedDisk checks that damaged blocks are found when they are read back from disks, and that
// no request gets a wrong token from them. The runs have an odd seed, in which all stored blocks are
// restored.
func TestDamagedDisk(t *testing.T) {
	found := uint64(0)
	for seed := uint64(29); seed <= 31; seed += 2 {
		o := options(seed, 0)
		o.Faults = []dst.Fault{}
		for at := time.Second; at < 15*time.Second; at += 500 * time.Millisecond {
			for _, node := range []string{"n0", "n1", "n2"} {
				o.Faults = append(o.Faults,
					dst.Fault{At: at, Kind: dst.Offload, Node: node, Model: "m"},
					dst.Fault{At: at, Kind: dst.DamageDisk, Node: node, Count: 1 << 10},
					dst.Fault{At: at, Kind: dst.Flush, Node: node, Model: "m"})
			}
		}
		r := run(t, o)
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %v", seed, r.Failures)
		}
		found += r.Seen["nvme damaged"]
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

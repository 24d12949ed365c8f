package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// burst returns the options of a run whose calls and faults are so dense that most faults occur while
// something is in progress.
func burst(seed uint64, faults int) dst.Options {
	o := options(seed, faults)
	o.Calls, o.Load = 120, 3*time.Second
	return o
}

// TestBursts runs a cluster of three nodes under bursts of load and faults.
func TestBursts(t *testing.T) {
	for seed := uint64(14); seed < 22; seed++ {
		o := burst(seed, 21)
		if r := run(t, o); len(r.Failures) > 0 {
			t.Errorf("burst of seed %d: %q, after %v", seed, r.Failures, r.Faults)
		}
	}
}

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
	start, count := uint64(14), uint64(4)
	switch {
	case *firstSeed != 0:
		start, count = *firstSeed, 1
	case *wide > 0:
		start, count = *from, *wide
	}
	for seed := start; seed < start+count; seed++ {
		o := alone(t, burst(seed, 21))
		r := run(t, o)
		t.Logf("burst of seed %d trace %s", seed, r.Trace)
		if o.Log, o.Trace = nil, nil; len(r.Failures) > 0 {
			report(t, o, r)
		}
	}
}

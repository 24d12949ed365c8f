package dst_test

import (
	"strings"
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestHungStep checks what happens while steps hang: few requests end by their deadlines, those in the
// first step of a replica, and all others are served elsewhere, or when the replica is replaced. The
// steps would end after a minute, or when an operator restarts the replica.
func TestHungStep(t *testing.T) {
	late, calls := 0, 0
	for seed, kind := range []dst.FaultKind{dst.HangStep, dst.StickStep, dst.HangReset} {
		o := options(uint64(seed+1), 0)
		o.Faults = []dst.Fault{{At: time.Second, Kind: kind, Node: "n0", For: time.Minute},
			{At: time.Second, Kind: kind, Node: "n1", For: time.Minute}}
		r := run(t, o)
		if len(r.Failures) > 0 {
			t.Errorf("%s: %v", kind, r.Failures)
		}
		missed, invalid := 0, 0
		for why, n := range r.Refused {
			switch {
			case why == "DEADLINE", strings.HasSuffix(why, " timeout"):
				missed += n
			case strings.HasPrefix(why, "HTTP 4"): // by design: invalid keys and parameters, and slow clients
				invalid += n
			}
		}
		calls += o.Calls
		if late += missed; r.Served+missed+invalid+r.Void != o.Calls {
			t.Errorf("%s: %d of %d requests served, refused: %v", kind, r.Served, o.Calls, r.Refused)
		}
	}
	if late == 0 || late > calls/10 { // without the watch over steps, more are late
		t.Errorf("%d of %d requests missed their deadlines", late, calls)
	}
}

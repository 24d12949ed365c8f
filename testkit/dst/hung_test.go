package dst_test

import (
	"strings"
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestHungStep checks what happens while a step hangs: the requests in it end by their deadlines, and
// all others are served, those of its replica when the step has ended. It ends after a minute, or when
// an operator restarts its replica.
func TestHungStep(t *testing.T) {
	late := 0
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
		if late += missed; r.Served+missed+invalid+r.Void != o.Calls || missed > o.Calls/2 {
			t.Errorf("%s: %d of %d requests served, refused: %v", kind, r.Served, o.Calls, r.Refused)
		}
	}
	if late == 0 {
		t.Error("no step hung beyond a deadline")
	}
}

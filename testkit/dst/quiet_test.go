package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// sometimes are the things that must happen in some of the runs of TestQuiet.
var sometimes = []string{"preemptions", "sequences migrated", "blocks offloaded", "blocks restored",
	"blocks found in HBM", "blocks evicted", "dram arrivals", "dram hits", "dram demotions", "nvme arrivals",
	"nvme hits", "nvme drops", "remote hits", "turns taken"}

// TestQuiet runs a cluster without faults: with little load, with much, and with much and commands of
// operators.
func TestQuiet(t *testing.T) {
	counts := make(dst.Counts)
	for i := range 3 * *quiet {
		seed := *from + i
		o := options(seed, 0)
		o.Calm, o.Busy, o.Calls = true, i%3 > 0, 60
		if !o.Busy {
			o.Calls = 12
		}
		if i%3 == 2 {
			o.Count = 30
		}
		r := run(t, o)
		t.Logf("quiet seed %d trace %s", seed, r.Trace)
		for _, f := range r.Failures {
			t.Errorf("quiet seed %d: %s", seed, f)
		}
		if *first && t.Failed() {
			t.FailNow()
		}
		counts.Add(r.Counts)
	}
	for _, what := range sometimes {
		if counts[what] == 0 {
			t.Errorf("all seeds: never: %s", what)
		}
	}
	t.Log(counts)
}

package dst_test

import (
	"flag"
	"testing"

	"troupe/testkit/dst"
)

var updateQuiet = flag.Bool("update-quiet", false, "let TestQuiet rewrite "+quietFile)

// sometimes are the things that must happen in some of the runs of TestQuiet.
var sometimes = []string{"preemptions", "sequences migrated", "blocks offloaded", "blocks restored",
	"blocks found in HBM", "blocks evicted", "dram arrivals", "dram hits", "dram demotions", "nvme arrivals",
	"nvme hits", "nvme drops", "remote hits", "turns taken"}

// calm returns the options of a run without faults. Of three seeds, the first has little load, the second
// much, and the third much and commands of operators.
func calm(seed uint64) dst.Options {
	o := options(seed, 0)
	o.Calm, o.Busy, o.Calls = true, seed%3 != 1, 60
	if !o.Busy {
		o.Calls = 12
	}
	if seed%3 == 0 {
		o.Count = 30
	}
	return o
}

// TestQuiet runs a cluster without faults: with little load, with much, and with much and commands of
// operators.
func TestQuiet(t *testing.T) {
	counts, rows := make(dst.Counts), readQuiet(t)
	start, count := *from, 3**quiet
	if *firstSeed != 0 {
		start, count = *firstSeed, 1
	}
	for i := range count {
		seed := start + i
		r := run(t, alone(t, calm(seed)))
		t.Logf("quiet seed %d trace %s", seed, r.Trace)
		for _, f := range r.Failures {
			t.Errorf("quiet seed %d: %s", seed, f)
		}
		if wrong := rows.add(r.Transitions, seed%3 == 0, i < suiteSeeds); !*updateQuiet {
			for _, row := range wrong {
				t.Errorf("quiet seed %d: not expected without a fault: %s", seed, row)
			}
		}
		if *first && t.Failed() {
			t.FailNow()
		}
		counts.Add(r.Counts)
	}
	if *firstSeed != 0 {
		return
	}
	for _, what := range sometimes {
		if counts[what] == 0 {
			t.Errorf("all seeds: never: %s", what)
		}
	}
	t.Log(counts)
	if *from > 1 || 3**quiet < suiteSeeds {
		return
	}
	if *updateQuiet {
		if err := rows.write(); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, row := range rows.missing() {
		t.Errorf("all seeds: never: %s", row)
	}
	if !*first { // a change of tools/mutate removes rows
		for _, row := range rows.gone() {
			t.Errorf("all seeds: gone: %s", row)
		}
	}
}

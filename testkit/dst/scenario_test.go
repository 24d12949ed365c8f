package dst_test

import (
	"cmp"
	"flag"
	"testing"

	"troupe/testkit/dst"
)

var (
	pick = flag.Uint64("pick", 0, "run only this `seed` of each scenario; 0: all")
	wide = flag.Uint64("wide", 0, "run each scenario with this `number` of seeds from -from on; 0: with its own")
)

// scenario runs a cluster with the options for each of the seeds, and checks the properties.
func scenario(t *testing.T, o dst.Options, seeds ...uint64) dst.Seen {
	t.Helper()
	seen := make(dst.Seen)
	o.Nodes = cmp.Or(o.Nodes, *nodes)
	if o.Calls == 0 {
		o.Calls = 40
	}
	if *pick > 0 {
		seeds = []uint64{*pick}
	}
	if *wide > 0 {
		seeds = seeds[:0]
		for i := range *wide {
			seeds = append(seeds, *from+i)
		}
	}
	if *firstSeed != 0 {
		seeds = []uint64{*firstSeed}
	}
	for _, o.Seed = range seeds {
		o := alone(t, o)
		r := run(t, o)
		o.Log, o.Trace = nil, nil
		t.Logf("%s seed %d trace %s", t.Name(), o.Seed, r.Trace)
		if seen.Add(r.Seen); len(r.Failures) > 0 {
			report(t, o, r)
		}
	}
	return seen
}

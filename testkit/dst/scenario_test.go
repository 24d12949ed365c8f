package dst_test

import (
	"flag"
	"testing"

	"troupe/testkit/dst"
)

var brief = flag.Int("brief", 0, "run only the first `number` of the seeds of each scenario; 0: all")

// scenario runs a cluster with the options for each of the seeds, and checks the properties.
func scenario(t *testing.T, o dst.Options, seeds ...uint64) {
	t.Helper()
	o.Nodes = 3
	if o.Calls == 0 {
		o.Calls = 40
	}
	if *brief > 0 {
		seeds = seeds[:min(*brief, len(seeds))]
	}
	for _, o.Seed = range seeds {
		r := run(t, o)
		t.Logf("%s seed %d trace %s", t.Name(), o.Seed, r.Trace)
		if len(r.Failures) > 0 {
			report(t, o, r)
		}
	}
}

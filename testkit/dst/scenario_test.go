package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// scenario runs a cluster with the options for each of the seeds, and checks the properties.
func scenario(t *testing.T, o dst.Options, seeds ...uint64) {
	t.Helper()
	o.Nodes = 3
	if o.Calls == 0 {
		o.Calls = 40
	}
	for _, o.Seed = range seeds {
		if r := run(t, o); len(r.Failures) > 0 {
			report(t, o, r)
		}
	}
}

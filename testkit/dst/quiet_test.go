package dst_test

import "testing"

// TestQuiet runs a cluster without faults, for a few seeds.
func TestQuiet(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		r := run(t, options(seed, 0))
		t.Logf("quiet seed %d trace %s", seed, r.Trace)
		for _, f := range r.Failures {
			t.Errorf("quiet seed %d: %s", seed, f)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

package replica_test

import (
	"testing"
	"testing/synctest"

	"troupe/messages"
)

// TestMigrateKeepsSalt checks that the blocks of a migrated sequence are found at the target by
// sequences with its salt, and by no others.
func TestMigrateKeepsSalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, roomy, roomy)
		seq := salted(1, 40, 20)
		want := c.reference(seq)
		got := c.open(seq)
		c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
		if m := c.move(c.a, c.b, got.id).GetSequences(); len(m) != 1 || !m[0].GetMoved() {
			t.Fatalf("%v", m)
		}
		c.checkOutcome(got, want)
		c.routeTo = c.b
		other := salted(1, 40, 20)
		other.CacheSalt = []byte("the salt of another tenant")
		for _, tc := range []struct {
			what  string
			seq   *messages.SequenceSpec
			found bool
		}{
			{"without a salt", greedy(1, 40, 20), false},
			{"with another salt", other, false},
			{"with the same salt", salted(1, 40, 20), true},
		} {
			again := c.open(tc.seq)
			c.checkOutcome(again, want)
			if (again.cached > 0) != tc.found {
				t.Errorf("%s: %d tokens cached, want some: %t", tc.what, again.cached, tc.found)
			}
		}
		c.checkEmpty()
	})
}

package replica_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// withAdapter gives a sequence one of the shipped model's adapters.
func withAdapter(name string, seq *messages.SequenceSpec) *messages.SequenceSpec {
	seq.Adapter = name
	seq.AdapterSpec = &messages.AdapterSpec{Name: name, Model: "m", Revision: 3,
		Path: filepath.Join(testkit.Model(), "adapters", name)}
	return seq
}

// adapters returns the adapters in a replica's status, by key.
func (c *cluster) adapters(n *testNode) map[string]*messages.AdapterHeld {
	all := map[string]*messages.AdapterHeld{}
	for _, a := range c.status(n).GetAdapters() {
		all[(&messages.AdapterSpec{Name: a.GetName(), Revision: a.GetRevision()}).Key()] = a
	}
	return all
}

// TestMigrateLoadsAdapterFirst checks that the target loads the adapter before it resumes the
// sequence, and that the tokens are those of an undisturbed run.
func TestMigrateLoadsAdapterFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, size{40, 4}, size{40, 4})
		want := c.reference(withAdapter("psalms", sampled(1, 30, 60)))
		plain := c.reference(sampled(1, 30, 60))
		if slices.Equal(want.Output(), plain.Output()) {
			t.Fatal("the adapter does not change the output")
		}
		got, companion := c.open(withAdapter("psalms", sampled(1, 30, 60))), c.open(sampled(1, 30, 60))
		c.waitFor("tokens", func() bool { return len(got.Output()) > 20 })
		if r := c.move(c.a, c.b, got.id).GetSequences(); !r[0].GetMoved() {
			t.Fatalf("not moved: %s", r[0].GetDetail())
		}
		if a := c.adapters(c.b)["psalms@3"]; a.GetState() != messages.AdapterState_ADAPTER_STATE_ACTIVE ||
			a.GetSequences() != 1 {
			t.Errorf("on the target: %v", a)
		}
		c.checkOutcome(got, want)
		c.checkOutcome(companion, plain)
		c.checkEmpty()
		for _, n := range []*testNode{c.a, c.b} {
			if a := c.adapters(n)["psalms@3"]; a.GetState() != messages.AdapterState_ADAPTER_STATE_IDLE ||
				a.GetSequences() != 0 {
				t.Errorf("%s, at the end: %v", n.name, a)
			}
		}
	})
}

// TestMigrateWaitingSequenceWithAdapter checks that a sequence without tokens migrates with its
// adapter, too.
func TestMigrateWaitingSequenceWithAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, size{40, 1}, size{40, 4})
		want := c.reference(withAdapter("psalms", sampled(1, 30, 60)))
		ahead := c.open(sampled(2, 30, 60))
		got := c.open(withAdapter("psalms", sampled(1, 30, 60)))
		if s := c.status(c.a); s.GetWaiting() != 1 {
			t.Fatalf("the sequence is not waiting: %v", s)
		}
		if r := c.move(c.a, c.b, got.id).GetSequences(); !r[0].GetMoved() {
			t.Fatalf("not moved: %s", r[0].GetDetail())
		}
		c.checkOutcome(got, want)
		c.waitFor("the end of the other sequence", ahead.done)
		c.checkEmpty()
	})
}

// TestMigrateRefusedWithoutAdapter checks that a target refuses the sequence if it cannot load the
// adapter soon or at all. The sequence continues at its source.
func TestMigrateRefusedWithoutAdapter(t *testing.T) {
	for name, loads := range map[string]func(context.Context) error{
		"damaged": func(context.Context) error { return errors.New("the file is damaged") },
		"slow": func(ctx context.Context) error {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newShippedCluster(t, size{40, 4}, size{40, 4})
				want := c.reference(withAdapter("psalms", sampled(1, 30, 60)))
				c.b.onAdapterLoad = loads
				got := c.open(withAdapter("psalms", sampled(1, 30, 60)))
				c.waitFor("tokens", func() bool { return len(got.Output()) > 20 })
				if r := c.move(c.a, c.b, got.id).GetSequences(); r[0].GetMoved() || r[0].GetDetail() == "" {
					t.Errorf("moved: %v", r[0])
				}
				c.checkOutcome(got, want)
				c.checkEmpty()
				if a := c.adapters(c.b)["psalms@3"]; a.GetSequences() != 0 {
					t.Errorf("on the target: %v", a)
				}
			})
		})
	}
}

// TestOperatorPinLoadsAdapter checks that a pinned adapter is loaded without a sequence and stays
// until it is unpinned, and that an adapter is removed after ForgetAdapter.
func TestOperatorPinLoadsAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, size{40, 4}, size{40, 4})
		spec := withAdapter("shout", greedy(1, 4, 4)).GetAdapterSpec()
		apply := func(pinned bool) {
			update := &messages.AdapterSpec{Name: spec.GetName(), Model: "m", Revision: spec.GetRevision(),
				Path: spec.GetPath(), Pinned: pinned}
			c.operator.Send(c.a.PID, &messages.ApplyAdapter{Adapter: update})
		}
		apply(true)
		c.waitFor("the adapter on the device", func() bool {
			return c.adapters(c.a)["shout@3"].GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU
		})
		for i, name := range []string{"psalms", "proverbs", "psalms"} { // the replica has two pages
			seq := withAdapter(name, greedy(uint32(i), 10, 5))
			c.waitFor(name, c.open(seq).done)
		}
		a := c.adapters(c.a)["shout@3"]
		if a.GetState() != messages.AdapterState_ADAPTER_STATE_ACTIVE || !a.GetPinned() || a.GetSequences() != 0 {
			t.Errorf("pinned: %v", a)
		}
		apply(false)
		c.waitFor("the adapter to be idle", func() bool {
			return c.adapters(c.a)["shout@3"].GetState() == messages.AdapterState_ADAPTER_STATE_IDLE
		})
		apply(true)
		c.operator.Send(c.a.PID, &messages.ForgetAdapter{Adapter: spec})
		c.waitFor("the adapter to be removed", func() bool { return c.adapters(c.a)["shout@3"] == nil })
	})
}

// TestOperatorPinWaitsForPages checks that a pin waits while sequences use all pages.
func TestOperatorPinWaitsForPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, size{40, 4}, size{40, 4})
		one, two := c.open(withAdapter("psalms", greedy(1, 10, 60))), c.open(withAdapter("proverbs", greedy(2, 10, 60)))
		c.waitFor("both sequences to run", func() bool { return len(one.Output()) > 0 && len(two.Output()) > 0 })
		spec := withAdapter("shout", greedy(1, 4, 4)).GetAdapterSpec()
		spec.Pinned = true
		c.waitFor("their end", func() bool {
			c.operator.Send(c.a.PID, &messages.ApplyAdapter{Adapter: spec}) // as a router does until it is pinned
			if a := c.adapters(c.a)["shout@3"]; !one.done() && !two.done() && a.GetPinned() {
				t.Fatalf("pinned while two other adapters use both pages: %v", a)
			}
			return one.done() && two.done()
		})
		c.waitFor("the pin", func() bool {
			c.operator.Send(c.a.PID, &messages.ApplyAdapter{Adapter: spec})
			return c.adapters(c.a)["shout@3"].GetPinned()
		})
	})
}

// TestBlocksAreSharedPerAdapter checks that blocks computed with one adapter, or none, are reused
// only with the same one.
func TestBlocksAreSharedPerAdapter(t *testing.T) {
	var want, base []uint32
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, size{40, 4}, size{40, 4})
		got := c.open(withAdapter("psalms", greedy(1, 40, 20)))
		c.waitFor("its end", got.done)
		want = got.Output()
	})
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, size{40, 4}, size{40, 4})
		run := func(seq *messages.SequenceSpec) []uint32 {
			got := c.open(seq)
			c.waitFor("its end", got.done)
			return got.Output()
		}
		base = run(greedy(1, 40, 20))
		older := withAdapter("psalms", greedy(1, 40, 20))
		older.AdapterSpec.Revision, older.AdapterSpec.Path = 2, filepath.Join(testkit.Model(), "adapters", "shout")
		run(older)
		if got := run(withAdapter("psalms", greedy(1, 40, 20))); !slices.Equal(got, want) || slices.Equal(got, base) {
			t.Errorf("got %v, in a fresh replica %v, without adapter %v", got, want, base)
		}
		if n := c.status(c.a).GetTokensCached(); n != 0 {
			t.Errorf("%d tokens were reused from blocks of another adapter", n)
		}
		if got := run(withAdapter("psalms", greedy(1, 40, 20))); !slices.Equal(got, want) ||
			c.status(c.a).GetTokensCached() == 0 {
			t.Errorf("again: got %v, want %v, %d tokens cached", got, want, c.status(c.a).GetTokensCached())
		}
	})
}

package replica_test

import (
	"context"
	"testing"
	"testing/synctest"

	"troupe/actors/model/replica"
	"troupe/messages"
)

// TestSamePrefixIsRestoredOnce checks that sequences with the same first blocks share one restore,
// and that each gets its tokens whatever the result.
func TestSamePrefixIsRestoredOnce(t *testing.T) {
	const many = 6
	prompts := make([]*messages.SequenceSpec, many) // equal except for the last token
	for i := range prompts {
		prompts[i] = sampled(5, 40, 4)
		prompts[i].Prompt[39] += uint32(i)
	}
	for name, tc := range map[string]struct {
		prepare func(r *tierCluster)
		first   func(r *tierCluster, c *testClient) // applied to the sequence that the others wait for
		came    [2]uint64                           // minimum and maximum number of restored blocks
	}{
		"success": {came: [2]uint64{restorable, restorable}},
		"first sequence cancelled": {
			first: func(r *tierCluster, c *testClient) {
				r.operator.Send(r.a.PID, &messages.CancelSequence{RequestId: c.id})
			},
			came: [2]uint64{restorable, restorable},
		},
		"failure": {prepare: func(r *tierCluster) {
			r.store.set(func(context.Context, int, int) error { return errDisk })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTierCluster(t, 1<<20, 0, nil)
				wants := make([]*testClient, many)
				for i, seq := range prompts {
					wants[i] = r.reference(seq)
				}
				r.checkOutcome(r.open(prompts[0]), wants[0])
				r.offloadAll()
				r.store.set(nil)
				if tc.prepare != nil {
					tc.prepare(r)
				}
				before := r.status(r.a)
				all := make([]*testClient, many)
				settle := r.settle
				r.settle = func() {} // all sequences are submitted before the first lookup
				for i, seq := range prompts {
					all[i] = r.open(seq)
				}
				if r.settle = settle; tc.first != nil {
					tc.first(r, all[0])
				}
				for i, c := range all {
					if i > 0 || tc.first == nil {
						r.checkOutcome(c, wants[i])
					}
				}
				s := r.status(r.a)
				if came := s.GetKvRestored() - before.GetKvRestored(); came < tc.came[0] || came > tc.came[1] {
					t.Errorf("%d blocks were restored: %v", came, s)
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}

// TestSamePrefixIsFetchedOnce is like TestSamePrefixIsRestoredOnce, with blocks from another node.
func TestSamePrefixIsFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRemoteCluster(t, nil)
		seq := sampled(5, 90, 12)
		want := c.open(seq)
		c.waitFor("the end of the first run", want.done)
		c.routeTo = c.b
		settle := c.settle
		c.settle = func() {}
		all := []*testClient{c.open(seq), c.open(seq), c.open(seq)}
		c.settle = settle
		for _, got := range all {
			c.checkOutcome(got, want)
		}
		if s := c.status(c.b); s.GetKvFetched() != fetchable || s.GetTokensCached() != 3*8*fetchable {
			t.Errorf("%v", s)
		}
		c.checkEmpty()
	})
}

// TestSlowTierIsAvoidedAndRetried checks that a tier that delivers nothing in time is avoided, and
// retried eventually.
func TestSlowTierIsAvoidedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierClusterWith(t, replica.Tiers{}, 0, nil)
		seq := sampled(5, 40, 1)
		want := r.reference(seq)
		again := func() *messages.ReplicaStatus {
			r.checkOutcome(r.open(seq), want)
			r.offloadAll()
			return r.status(r.a)
		}
		again()
		r.store.set(func(ctx context.Context, _, _ int) error { <-ctx.Done(); return ctx.Err() })
		for i := range 4 {
			if s := again(); s.GetKvRestores() != 1 || s.GetKvRestoresAvoided() != uint64(i) {
				t.Fatalf("after %d runs: %v", i+1, s)
			}
		}
		r.store.set(nil)
		tries := 0
		for ; again().GetKvRestores() == 1 && tries < 400; tries++ {
		}
		if tries == 0 || tries == 400 {
			t.Errorf("the tier was tried again after %d runs", tries)
		}
		r.checkUnlocked()
		r.checkEmpty()
	})
}

// TestUnclaimedLocksAreReleased checks that no block stays locked if a replica crashes or stops
// after blocks were found for a sequence and before they were restored.
func TestUnclaimedLocksAreReleased(t *testing.T) {
	for _, name := range []string{"crash on the note", "crash after the note", "stop"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				note, step := &trigger{on: "*messages.LookUpBlocksResult"}, &trigger{on: "*messages.RunStepResult"}
				r := newTierCluster(t, 1<<20, 0, nil, step.middleware, note.middleware)
				note.instead = map[string]func(func()){
					"crash on the note":    nil,
					"crash after the note": func(take func()) { take(); step.armed.Store(true) },
					"stop":                 func(take func()) { take(); r.routeTo = r.b; r.stop(r.a) },
				}[name]
				seq, companionSeq := sampled(5, 40, 4), sampled(9, 8, 25)
				want, other := r.reference(seq), r.reference(companionSeq)
				r.checkOutcome(r.open(seq), want)
				r.offloadAll()
				companion := r.open(companionSeq) // its step is in flight when the message arrives
				r.waitFor("the second sequence to decode", func() bool { return len(companion.Output()) > 2 })
				note.armed.Store(true)
				got := r.open(seq)
				r.checkOutcome(got, want)
				r.checkOutcome(companion, other)
				if !note.fired.Load() || step.fired.Load() != (name == "crash after the note") {
					t.Error("the fault was not injected")
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}

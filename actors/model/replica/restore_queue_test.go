package replica_test

import (
	"context"
	"testing"
	"testing/synctest"

	"troupe/actors/model/replica"
	"troupe/messages"
)

// TestSoughtOnce: sequences that begin with the same blocks have them restored, or fetched, once for all; whatever becomes of that, each gets its tokens.
func TestSoughtOnce(t *testing.T) {
	const many = 6
	prompts := make([]*messages.SequenceSpec, many) // alike but for the last token
	for i := range prompts {
		prompts[i] = sampled(5, 40, 4)
		prompts[i].Prompt[39] += uint32(i)
	}
	for name, tc := range map[string]struct {
		prepare func(r *riser)
		first   func(r *riser, c *caller) // is done to the one that the others wait for
		came    [2]uint64                 // blocks, at least and at most
	}{
		"it comes": {came: [2]uint64{risingBlocks, risingBlocks}},
		"the first one is cancelled": {
			first: func(r *riser, c *caller) { r.operator.Send(r.a.PID, &messages.CancelSequence{RequestId: c.id}) },
			came:  [2]uint64{risingBlocks, risingBlocks},
		},
		"nothing comes": {prepare: func(r *riser) {
			r.store.set(func(context.Context, int, int) error { return errDisk })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRiser(t, 1<<20, false, nil)
				wants := make([]*caller, many)
				for i, seq := range prompts {
					wants[i] = r.alone(seq)
				}
				r.finished(r.call(prompts[0]), wants[0])
				r.below()
				r.store.set(nil)
				if tc.prepare != nil {
					tc.prepare(r)
				}
				before := r.status(r.a)
				all := make([]*caller, many)
				settle := r.settle
				r.settle = func() {} // all are there before anything was looked for
				for i, seq := range prompts {
					all[i] = r.call(seq)
				}
				if r.settle = settle; tc.first != nil {
					tc.first(r, all[0])
				}
				for i, c := range all {
					if i > 0 || tc.first == nil {
						r.finished(c, wants[i])
					}
				}
				s := r.status(r.a)
				if came := s.GetKvRestored() - before.GetKvRestored(); came < tc.came[0] || came > tc.came[1] {
					t.Errorf("%d blocks were restored: %v", came, s)
				}
				r.unlocked()
				r.empty()
			})
		})
	}
}

// TestFetchedOnce likewise, from another node.
func TestFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lending(t, nil)
		seq := sampled(5, 90, 12)
		want := c.call(seq)
		c.until("the first run ends", want.done)
		c.to = c.b
		settle := c.settle
		c.settle = func() {}
		all := []*caller{c.call(seq), c.call(seq), c.call(seq)}
		c.settle = settle
		for _, got := range all {
			c.finished(got, want)
		}
		if s := c.status(c.b); s.GetKvFetched() != fetchable || s.GetTokensCached() != 3*8*fetchable {
			t.Errorf("%v", s)
		}
		c.empty()
	})
}

// TestSlowDisk: a tier out of which nothing comes in time is taken for as slow as that, and avoided; it is tried again some day.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRiserOf(t, replica.Tiers{}, nil)
		seq := sampled(5, 40, 1)
		want := r.alone(seq)
		again := func() *messages.ReplicaStatus {
			r.finished(r.call(seq), want)
			r.below()
			return r.status(r.a)
		}
		again()
		r.store.set(func(ctx context.Context, _, _ int) error { <-ctx.Done(); return ctx.Err() })
		for i := range 4 {
			if s := again(); s.GetKvRestores() != 1 || s.GetKvRestoresAvoided() != uint64(i) {
				t.Fatalf("after %d times: %v", i+1, s)
			}
		}
		r.store.set(nil)
		tries := 0
		for ; again().GetKvRestores() == 1 && tries < 400; tries++ {
		}
		if tries == 0 || tries == 400 {
			t.Errorf("it was tried again after %d times", tries)
		}
		r.unlocked()
		r.empty()
	})
}

// TestLookedInVain: a replica crashes, or is stopped, after blocks were found for a sequence and before anything came of it. None stays locked.
func TestLookedInVain(t *testing.T) {
	for _, name := range []string{"crash on the note", "crash after the note", "stop"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				note, step := &armed{on: "*replica.located"}, &armed{on: "*messages.RunStepResult"}
				r := newRiser(t, 1<<20, false, nil, step.middleware, note.middleware)
				note.instead = map[string]func(func()){
					"crash on the note":    nil,
					"crash after the note": func(take func()) { take(); step.now.Store(true) },
					"stop":                 func(take func()) { take(); r.to = r.b; r.stop(r.a) },
				}[name]
				seq, beside := sampled(5, 40, 4), sampled(9, 8, 25)
				want, other := r.alone(seq), r.alone(beside)
				r.finished(r.call(seq), want)
				r.below()
				with := r.call(beside) // so that a step runs when the note comes
				r.until("it decodes", func() bool { return len(with.Output()) > 2 })
				note.now.Store(true)
				got := r.call(seq)
				r.finished(got, want)
				r.finished(with, other)
				if !note.done.Load() || step.done.Load() != (name == "crash after the note") {
					t.Error("it did not happen")
				}
				r.unlocked()
				r.empty()
			})
		})
	}
}

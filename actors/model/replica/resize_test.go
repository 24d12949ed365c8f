package replica_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// TestShrinkStopsSteps checks that no step runs between the answer and GrowKV, and that the answer
// is repeated.
func TestShrinkStopsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: 10 * time.Millisecond}
		s := newHarness(t, c, loaded)
		// A sequence of full length takes 16 blocks.
		s.gpu.Send(s.replica, &messages.ShrinkKV{Lease: "m-0", Blocks: 15, Attempt: 1})
		synctest.Wait()
		if got := testkit.Got[*messages.KVShrunk](s.gpu); len(got) != 1 || got[0].GetRefused() == nil {
			t.Fatalf("%v", got)
		}
		s.client.Send(s.replica, &messages.SubmitSequence{RequestId: "r", Sequence: &messages.SequenceSpec{
			Model: "m", Prompt: []uint32{1, 2, 3}, Sampling: &messages.SamplingParams{MaxTokens: 40, IgnoreEos: true},
		}})
		time.Sleep(25 * time.Millisecond)
		ask := &messages.ShrinkKV{Lease: "m-0", Blocks: 16, Attempt: 2}
		s.gpu.Send(s.replica, ask)
		time.Sleep(20 * time.Millisecond)
		s.gpu.Send(s.replica, ask)
		synctest.Wait()
		got := testkit.Got[*messages.KVShrunk](s.gpu)
		if len(got) != 3 || got[2].GetAttempt() != 2 || got[2].GetRefused() != nil {
			t.Fatalf("%v", got)
		}
		steps := c.steps
		time.Sleep(100 * time.Millisecond)
		if c.steps != steps {
			t.Error("a step ran while memory shrank")
		}
		s.gpu.Send(s.replica, &messages.GrowKV{Lease: "m-0", Blocks: 16})
		time.Sleep(2 * time.Second)
		var tokens int
		for _, e := range testkit.Got[*messages.TokensEmitted](s.client) {
			tokens += len(e.GetTokens())
		}
		reports := testkit.Got[*messages.KVReport](s.gpu)
		if last := reports[len(reports)-1]; tokens != 40 || last.GetBlocks() != 16 || last.GetMinBlocks() != 16 ||
			len(reports) > 4 {
			t.Errorf("%d tokens, %d reports: %v", tokens, len(reports), last)
		}
	})
}

// TestShrinkPreempts checks that sequences with blocks beyond the new limit are preempted after the
// step and continue in the remaining blocks.
func TestShrinkPreempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: 10 * time.Millisecond}, loaded)
		other := spec(40, 20)
		other.Prompt[0] = 50
		s.submit("first", spec(40, 20)) // ten blocks, 15 at the end
		s.submit("beyond", other)
		time.Sleep(25 * time.Millisecond)
		s.gpu.Send(s.replica, &messages.ShrinkKV{Lease: "m-0", Blocks: 16, Attempt: 1})
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if got := testkit.Got[*messages.KVShrunk](s.gpu); len(got) != 1 || got[0].GetRefused() != nil {
			t.Fatalf("%v two steps later", got)
		}
		s.gpu.Send(s.replica, &messages.GrowKV{Lease: "m-0", Blocks: 16})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.checkServed("first", 40, 20)
		s.checkServed("beyond", 40, 20)
	})
}

// TestGrowRaisesContextLimit checks that more memory allows longer sequences and announcements of
// more blocks.
func TestGrowRaisesContextLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		little := func(int) *messages.LoadModelResult {
			r := loaded(1)
			r.GetLoaded().KvBlocks = 8 // 32 of 64 context tokens
			return r
		}
		s := newHarness(t, &positionEngine{}, little)
		whole := func(id string) (tokens int) {
			s.client.Send(s.replica, &messages.SubmitSequence{RequestId: id, Sequence: &messages.SequenceSpec{
				Model: "m", Prompt: []uint32{1, 2, 3, 4}, Sampling: &messages.SamplingParams{MaxTokens: 100,
					IgnoreEos: true},
			}})
			time.Sleep(time.Second)
			synctest.Wait()
			for _, e := range testkit.Got[*messages.TokensEmitted](s.client) {
				if e.GetRequestId() == id {
					tokens += len(e.GetTokens())
				}
			}
			return tokens
		}
		if n := whole("short"); n != 28 {
			t.Errorf("%d tokens of 28", n)
		}
		s.gpu.Send(s.replica, &messages.GrowKV{Lease: "m-0", Blocks: 32})
		if n := whole("long"); n != 60 {
			t.Errorf("%d tokens of 60", n)
		}
		reports := testkit.Got[*messages.KVReport](s.gpu)
		if last := reports[len(reports)-1]; last.GetMinBlocks() != 16 || last.GetBlocks() != 32 {
			t.Errorf("%v", last)
		}
	})
}

// shrinkTo acts as the GPU actor: it repeats ShrinkKV until the replica accepts, then sends GrowKV.
func (c *cluster) shrinkTo(n *testNode, blocks uint32) {
	c.t.Helper()
	before := len(testkit.Got[*messages.KVShrunk](n.gpu))
	attempt := uint64(1)
	c.waitFor("the shrink", func() bool {
		n.gpu.Send(n.PID, &messages.ShrinkKV{Lease: n.name, Blocks: blocks, Attempt: attempt})
		all := testkit.Got[*messages.KVShrunk](n.gpu)
		return len(all) > before && all[len(all)-1].GetRefused() == nil
	})
	n.gpu.Send(n.PID, &messages.GrowKV{Lease: n.name, Blocks: blocks})
}

// TestShrinkWhileMigrating checks that a migrating sequence gets its tokens if the source or the
// target shrinks, and that no block leaks.
func TestShrinkWhileMigrating(t *testing.T) {
	for name, which := range map[string]func(*cluster) *testNode{
		"source": func(c *cluster) *testNode { return c.a }, "target": func(c *cluster) *testNode { return c.b },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, size{140, 12}, size{140, 12}) // a sequence of full length takes 128
				seq := sampled(5, 60, 60)
				for i := range uint32(10) { // these take the first 130 blocks
					c.open(greedy(10+i, 100, 20))
				}
				got := c.open(seq)
				c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
				id := c.migrate(c.a, c.b, got.id)
				time.Sleep(6 * time.Millisecond) // a chunk is being sent
				c.shrinkTo(which(c), 130)
				c.waitFor("its end", got.done)
				// The reference runs last, since it leaves its prompt in the first blocks.
				c.checkOutcome(got, c.reference(seq))
				c.waitFor("an answer", func() bool { return c.answer(id) != nil })
				if s := c.status(which(c)); s.GetKvBlocks() != 130 {
					t.Errorf("%d blocks", s.GetKvBlocks())
				}
				c.checkEmpty()
			})
		})
	}
}

// TestShrinkWaitsForReaders checks that no block is given up while the data plane reads it, even if
// the read is slow to end.
func TestShrinkWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, size{140, 6}, size{140, 6})
		c.reference(greedy(1, 800, 2)) // leaves its prompt in the first hundred blocks
		seq := sampled(5, 400, 60)
		var begun, late atomic.Int64
		c.a.onRead = func(block int32) {
			if block >= 130 {
				begun.Add(1)
				time.Sleep(300 * time.Millisecond)
				late.Add(int64(len(testkit.Got[*messages.KVShrunk](c.a.gpu))))
			}
		}
		got := c.open(seq)
		c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
		c.migrate(c.a, c.b, got.id)
		c.waitFor("a read of a block beyond the limit", func() bool { return begun.Load() > 0 })
		c.shrinkTo(c.a, 130)
		time.Sleep(time.Second)
		if late.Load() > 0 {
			t.Error("a block was given up while it was read")
		}
		c.waitFor("its end", got.done)
		c.checkOutcome(got, c.reference(seq))
		c.checkEmpty()
	})
}

// TestShrinkReplicaCrash checks that a replica that crashes during a shrink restarts with the
// remaining blocks.
func TestShrinkReplicaCrash(t *testing.T) {
	for _, on := range []string{"*messages.ShrinkKV", "*messages.GrowKV"} {
		t.Run(on, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &testkit.Crash{On: on, Times: 1}
				c := newCluster(t, size{140, 6}, roomy, crash.Middleware)
				seq := sampled(5, 60, 60)
				want := c.reference(seq)
				got := c.open(seq)
				c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
				c.shrinkTo(c.a, 130)
				c.checkOutcome(got, want)
				if crash.Crashed() == 0 {
					t.Error("no actor crashed")
				}
				c.checkEmpty()
			})
		})
	}
}

package replica_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
	"troupe/testkit"
)

var roomy = size{blocks: 40, sequences: 6}

// TestMovedAtEveryStep: after whatever token a sequence moves, its client sees what it would have seen.
func TestMovedAtEveryStep(t *testing.T) {
	for name, spec := range map[string]func(uint32, uint32, uint32) *messages.SequenceSpec{"greedy": greedy, "sampled": sampled, "salted": salted} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, roomy, roomy)
				const tokens = 20
				for at := range tokens - 4 {
					seq := spec(uint32(at), 27, tokens)
					want := c.alone(seq)
					got := c.call(seq)
					c.until("tokens", func() bool { return len(got.Output()) >= at })
					m := c.move(c.a, c.b, got.id).GetSequences()
					if len(m) != 1 || !m[0].GetMoved() || m[0].GetReusedBlocks() != 0 || m[0].GetBytes() == 0 {
						t.Fatalf("after %d tokens: %v", at, m)
					}
					// One step at the most, and one chunk for each block that a step can fill, the partial one too.
					if most := (stepTime + 2*c.bulk.chunkTime).Seconds(); m[0].GetPauseSeconds() > most {
						t.Errorf("after %d tokens: a pause of %v s, of %v", at, m[0].GetPauseSeconds(), most)
					}
					c.finished(got, want)
					told := testkit.Got[*messages.SequenceMoved](c.router)
					if last := told[len(told)-1]; last.GetRequestId() != got.id || last.GetFrom() != "m-0" || last.GetReplica() != "m-1" ||
						last.GetCause() != fmt.Sprint("the test's order-", len(told)) || last.GetReport().GetBytes() != m[0].GetBytes() || last.GetReport().GetPauseSeconds() != m[0].GetPauseSeconds() {
						t.Errorf("the router was told %v", last)
					}
				}
				if a, b := c.status(c.a), c.status(c.b); a.GetMigratedOut() != tokens-4 || b.GetMigratedIn() != tokens-4 || b.GetNode() != "node-m-1" {
					t.Errorf("%v\n%v", a, b)
				}
				c.empty()
			})
		})
	}
}

// disturbed moves a sequence while something goes wrong, and checks that its client does not see it, and that nothing is left.
func disturbed(t *testing.T, a, b size, moved bool, during func(*cluster, *caller), mw ...actor.ReceiverMiddleware) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, a, b, mw...)
		seq := sampled(5, 60, 60)
		want := c.alone(seq)
		got := c.call(seq)
		c.until("tokens", func() bool { return len(got.Output()) >= 3 })
		id := c.order(c.a, c.b, got.id)
		if during != nil {
			during(c, got)
		}
		c.finished(got, want)
		c.until("an answer", func() bool { return c.answer(id) != nil })
		if m := c.answer(id).GetSequences()[0]; m.GetMoved() != moved || moved == (m.GetDetail() != "") {
			t.Errorf("%v", m)
		}
		c.empty()
	})
}

// TestDataPlaneFails at each chunk: the sequence stays where it is.
func TestDataPlaneFails(t *testing.T) {
	for name, err := range map[string]error{"error": errors.New("connection reset"), "stall": errStall} {
		for n := 1; n <= 9; n += 2 {
			t.Run(fmt.Sprint(name, " at chunk ", n), func(t *testing.T) {
				disturbed(t, roomy, roomy, false, func(c *cluster, _ *caller) {
					c.bulk.mu.Lock()
					defer c.bulk.mu.Unlock()
					c.bulk.fail = func(at int) error {
						if at >= n { // the first ones may have been sent already
							return err
						}
						return nil
					}
				})
			})
		}
	}
}

// TestLostAndRepeatedMessages: one that is lost is sent again; one that comes twice has its effect once.
func TestLostAndRepeatedMessages(t *testing.T) {
	for _, message := range []string{"OfferSequence", "OfferSequenceResult", "ResumeSequence", "ResumeSequenceResult"} {
		on := "*messages." + message
		t.Run(message+" lost", func(t *testing.T) {
			disturbed(t, roomy, roomy, true, nil, (&fault{on: on, times: 1}).middleware)
		})
		t.Run(message+" twice", func(t *testing.T) {
			disturbed(t, roomy, roomy, true, nil, (&fault{on: on, times: 9, double: true}).middleware)
		})
		t.Run(message+" never comes", func(t *testing.T) { // after ResumeSequence both may decode it for a while
			disturbed(t, roomy, roomy, false, nil, (&fault{on: on, times: 1 << 40}).middleware)
		})
	}
	t.Run("ResumeSequenceResult and AbandonSequence never come", func(t *testing.T) {
		disturbed(t, roomy, roomy, false, nil, (&fault{on: "*messages.ResumeSequenceResult", times: 1 << 40}).middleware, (&fault{on: "*messages.AbandonSequence", times: 1 << 40}).middleware)
	})
	t.Run("MigrateSequences twice", func(t *testing.T) {
		disturbed(t, roomy, roomy, true, nil, (&fault{on: "*messages.MigrateSequences", times: 1, double: true}).middleware)
	})
}

// TestReplicaCrashesWhileMoving: whichever of the two, at whichever message, the sequence goes on somewhere.
func TestReplicaCrashesWhileMoving(t *testing.T) {
	for _, message := range []string{
		"*messages.MigrateSequences", "*messages.OfferSequence", "*messages.OfferSequenceResult", "*replica.sent", "*messages.ResumeSequence", "*messages.ResumeSequenceResult",
	} {
		for after := range int64(2) {
			if after > 0 && message != "*replica.sent" {
				continue
			}
			t.Run(fmt.Sprint(message, " ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					crash := &testkit.Crash{On: message, After: after, Times: 1}
					c := newCluster(t, roomy, roomy, crash.Middleware)
					seq := sampled(5, 60, 60)
					want := c.alone(seq)
					got := c.call(seq)
					c.until("tokens", func() bool { return len(got.Output()) >= 3 })
					c.order(c.a, c.b, got.id)
					c.finished(got, want)
					if crash.Crashed() == 0 {
						t.Error("nothing crashed")
					}
					c.empty()
				})
			})
		}
	}
}

func TestRefusedMoves(t *testing.T) {
	t.Run("target has too few blocks", func(t *testing.T) { disturbed(t, roomy, size{8, 6}, false, nil) })
	t.Run("target drains", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, roomy, roomy)
			want := c.alone(greedy(1, 20, 20))
			got := c.call(greedy(1, 20, 20))
			c.operator.Send(c.b.PID, &messages.DrainReplica{})
			if m := c.move(c.a, c.b).GetSequences(); len(m) != 1 || m[0].GetMoved() || m[0].GetDetail() != "replica m-1 is draining" {
				t.Errorf("%v", m)
			}
			c.finished(got, want)
			if m := c.move(c.a, c.b, got.id).GetSequences(); m[0].GetMoved() || m[0].GetDetail() == "" {
				t.Errorf("one that has finished: %v", m)
			}
			if r := c.move(c.a, c.a).GetRefused(); r.GetReason() != messages.Reason_REASON_INVALID_ARGUMENT {
				t.Errorf("to itself: %v", r)
			}
			c.empty()
		})
	})
	t.Run("target is gone", func(t *testing.T) {
		disturbed(t, roomy, roomy, false, func(c *cluster, _ *caller) { c.stop(c.b) })
	})
}

// TestSessionLeaves while its sequence moves: nobody is left with it.
func TestSessionLeaves(t *testing.T) {
	for _, how := range []string{"closes", "is gone"} {
		for wait := 0; wait < 12; wait += 2 { // chunk times: each stage of a move
			t.Run(fmt.Sprint(how, " after ", wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, roomy, roomy)
					got := c.call(sampled(5, 60, 60))
					c.until("tokens", func() bool { return len(got.Output()) >= 3 })
					id := c.order(c.a, c.b, got.id)
					time.Sleep(time.Duration(wait) * c.bulk.chunkTime)
					if how == "closes" {
						c.operator.Send(got.session, &messages.CloseSession{RequestId: got.id})
					} else {
						c.sys.Root.Stop(got.session)
					}
					c.until("an answer", func() bool { return c.answer(id) != nil })
					time.Sleep(5 * stepTime)
					if a, b := c.status(c.a), c.status(c.b); a.GetRunning()+b.GetRunning() != 0 {
						t.Errorf("%d run at the source, %d at the target", a.GetRunning(), b.GetRunning())
					}
					c.empty()
				})
			})
		}
	}
}

// TestManyMoveBackAndForth: all that runs and all that waits, several at once, and back before they end.
func TestManyMoveBackAndForth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, size{60, 6}, size{60, 6})
		var want, got []*caller
		var specs []*messages.SequenceSpec
		for i := range uint32(9) {
			seq := greedy(i, 20+i, 50)
			if i%2 == 1 {
				seq = sampled(i, 20+i, 50)
			}
			specs = append(specs, seq)
			want = append(want, c.alone(seq))
		}
		for _, seq := range specs {
			got = append(got, c.call(seq))
		}
		from, to := c.a, c.b
		moved := 0
		for range 6 {
			time.Sleep(3 * stepTime)
			for _, m := range c.move(from, to).GetSequences() {
				if m.GetMoved() {
					moved++
				}
			}
			from, to = to, from
		}
		for i := range got {
			c.finished(got[i], want[i])
		}
		if moved < 30 {
			t.Errorf("%d moves", moved)
		}
		c.empty()
	})
}

// TestOthersGoOn: while a sequence moves, and while it is paused, the others of its replica get a token in each step.
func TestOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, roomy, roomy)
		c.bulk.chunkTime = 2 * stepTime
		moves, other := c.call(sampled(1, 60, 90)), c.call(greedy(2, 10, 90))
		c.until("tokens", func() bool { return len(moves.Output()) >= 3 })
		before, mine, begun := len(other.Output()), len(moves.Output()), time.Now()
		m := c.move(c.a, c.b, moves.id).GetSequences()[0]
		steps := int(time.Since(begun) / stepTime)
		if n := len(other.Output()) - before; !m.GetMoved() || n < steps-1 {
			t.Errorf("%d tokens in %d steps: %v", n, steps, m)
		}
		if n := len(moves.Output()) - mine; n < steps-2*2-2 {
			t.Errorf("%d of its own tokens in %d steps, of which it was paused for two chunks", n, steps)
		}
	})
}

// TestRouterKnowsTheBlocks: what the router was told by increments is what a snapshot says, through evictions and a crash.
func TestRouterKnowsTheBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.RunStepResult", After: 70, Times: 1}
		c := newCluster(t, size{20, 6}, roomy, crash.Middleware)
		for i := range uint32(6) { // 48 blocks, of which 20 fit
			w := c.call(greedy(i, 40, 24))
			c.until(w.id+" ends", w.done)
		}
		time.Sleep(time.Second)
		c.router.Send(c.a.PID, &messages.GetReplica{})
		synctest.Wait()
		known, lives := map[uint64]bool{}, map[uint64]bool{}
		var told []*messages.ReplicaAnnounced
		for _, m := range testkit.Got[*messages.ReplicaAnnounced](c.router) {
			if m.GetStatus().GetName() == c.a.name {
				told = append(told, m)
				lives[m.GetStatus().GetIncarnation()] = true
			}
		}
		last := told[len(told)-1]
		evictions := 0
		for _, m := range told[:len(told)-1] {
			if m.GetSnapshot() {
				clear(known)
			}
			for _, h := range m.GetEvicted() {
				delete(known, h)
				evictions++
			}
			for _, h := range m.GetCommitted() {
				known[h] = true
			}
		}
		snapshot := map[uint64]bool{}
		for _, h := range last.GetCommitted() {
			snapshot[h] = true
		}
		if !last.GetSnapshot() || len(snapshot) < 15 || !maps.Equal(known, snapshot) || evictions == 0 || len(lives) != 2 {
			t.Errorf("increments tell of %d blocks, the snapshot of %d; %d evictions, %d lives", len(known), len(snapshot), evictions, len(lives))
		}
		if told[0].GetStatus().GetNode() != "node-m-0" || last.GetStatus().GetBlockTokens() != 8 {
			t.Errorf("%v", last.GetStatus())
		}
	})
}

// TestIdleReplicaAnnounces: silence is at most 300 ms long.
func TestIdleReplicaAnnounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, roomy, roomy)
		before := len(testkit.Got[*messages.ReplicaAnnounced](c.router))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := len(testkit.Got[*messages.ReplicaAnnounced](c.router)) - before; n < 2*9 || n > 2*11 {
			t.Errorf("%d announcements of two replicas in 3 s", n)
		}
	})
}

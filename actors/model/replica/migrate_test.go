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

// TestMigrateAfterEveryToken migrates a sequence after each of its tokens. Its client must receive
// the output of an undisturbed run.
func TestMigrateAfterEveryToken(t *testing.T) {
	for name, spec := range map[string]func(uint32, uint32, uint32) *messages.SequenceSpec{"sampled": sampled,
		"salted": salted} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, roomy, roomy)
				const tokens = 14 // of which the first and the last blocks of 8 tokens end at 5 and 13
				for at := range tokens - 4 {
					seq := spec(uint32(at), 27, tokens)
					want := c.reference(seq)
					got := c.open(seq)
					c.waitFor("tokens", func() bool { return len(got.Output()) >= at })
					m := c.move(c.a, c.b, got.id).GetSequences()
					if len(m) != 1 || !m[0].GetMoved() || m[0].GetReusedBlocks() != 0 || m[0].GetBytes() == 0 {
						t.Fatalf("after %d tokens: %v", at, m)
					}
					// At most one step, and one chunk for each block that a step can fill,
					// including the partial one.
					if most := (stepTime + 2*c.bulk.chunkTime).Seconds(); m[0].GetPauseSeconds() > most {
						t.Errorf("after %d tokens: a pause of %v s, want at most %v s", at, m[0].GetPauseSeconds(),
							most)
					}
					c.checkOutcome(got, want)
					received := testkit.Got[*messages.SequenceMoved](c.router)
					if last := received[len(received)-1]; last.GetRequestId() != got.id || last.GetFrom() != "m-0" ||
						last.GetReplica() != "m-1" ||
						last.GetCause() != fmt.Sprint("the test's order-", len(received)) ||
						last.GetReport().GetBytes() != m[0].GetBytes() ||
						last.GetReport().GetPauseSeconds() != m[0].GetPauseSeconds() {
						t.Errorf("the router received %v", last)
					}
				}
				if a, b := c.status(c.a), c.status(c.b); a.GetMigratedOut() != tokens-4 ||
					b.GetMigratedIn() != tokens-4 || b.GetNode() != "node-m-1" {
					t.Errorf("%v\n%v", a, b)
				}
				c.checkEmpty()
			})
		})
	}
}

// checkDisturbed migrates a sequence during a fault. Its client must receive the same output, and
// all resources must be released.
func checkDisturbed(t *testing.T, a, b size, moved bool, during func(*cluster, *testClient),
	mw ...actor.ReceiverMiddleware) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, a, b, mw...)
		seq := sampled(5, 60, 60)
		want := c.reference(seq)
		got := c.open(seq)
		c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
		id := c.migrate(c.a, c.b, got.id)
		if during != nil {
			during(c, got)
		}
		c.checkOutcome(got, want)
		c.waitFor("an answer", func() bool { return c.answer(id) != nil })
		if m := c.answer(id).GetSequences()[0]; m.GetMoved() != moved || moved == (m.GetDetail() != "") {
			t.Errorf("%v", m)
		}
		c.checkEmpty()
	})
}

// TestDataPlaneFailureKeepsSequence checks that a failure at any chunk leaves the sequence at the
// source.
func TestDataPlaneFailureKeepsSequence(t *testing.T) {
	for name, err := range map[string]error{"error": errors.New("connection reset"), "stall": errStall} {
		for n := 1; n <= 9; n += 2 {
			t.Run(fmt.Sprint(name, " at chunk ", n), func(t *testing.T) {
				checkDisturbed(t, roomy, roomy, false, func(c *cluster, _ *testClient) {
					c.bulk.mu.Lock()
					defer c.bulk.mu.Unlock()
					c.bulk.fail = func(at int) error {
						if at >= n { // earlier chunks may be sent already
							return err
						}
						return nil
					}
				})
			})
		}
	}
}

// TestMigrateLostAndDuplicateMessages checks that lost messages are repeated and duplicates have no
// effect.
func TestMigrateLostAndDuplicateMessages(t *testing.T) {
	for _, message := range []string{"OfferSequence", "OfferSequenceResult", "ResumeSequence", "ResumeSequenceResult"} {
		on := "*messages." + message
		t.Run(message+" lost", func(t *testing.T) {
			checkDisturbed(t, roomy, roomy, true, nil, (&messageFault{messageType: on, times: 1}).middleware)
		})
		t.Run(message+" twice", func(t *testing.T) {
			checkDisturbed(t, roomy, roomy, true, nil,
				(&messageFault{messageType: on, times: 9, double: true}).middleware)
		})
		// After ResumeSequence both replicas may decode the sequence for a while.
		t.Run(message+" always lost", func(t *testing.T) {
			checkDisturbed(t, roomy, roomy, false, nil, (&messageFault{messageType: on, times: 1 << 40}).middleware)
		})
	}
	t.Run("ResumeSequenceResult and AbandonSequence always lost", func(t *testing.T) {
		checkDisturbed(t, roomy, roomy, false, nil,
			(&messageFault{messageType: "*messages.ResumeSequenceResult", times: 1 << 40}).middleware,
			(&messageFault{messageType: "*messages.AbandonSequence", times: 1 << 40}).middleware)
	})
	t.Run("MigrateSequences twice", func(t *testing.T) {
		checkDisturbed(t, roomy, roomy, true, nil,
			(&messageFault{messageType: "*messages.MigrateSequences", times: 1, double: true}).middleware)
	})
}

// TestMigrateReplicaCrash crashes the source or the target at each message. The sequence must
// continue.
func TestMigrateReplicaCrash(t *testing.T) {
	for _, message := range []string{
		"*messages.MigrateSequences", "*messages.OfferSequence", "*messages.OfferSequenceResult",
		"*replica.migrationNote", "*messages.ResumeSequence", "*messages.ResumeSequenceResult",
	} {
		for after := range int64(6) { // notes: of transfers that start, sinks that open, and sends
			if after > 0 && message != "*replica.migrationNote" {
				continue
			}
			t.Run(fmt.Sprint(message, " ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					crash := &testkit.Crash{On: message, After: after, Times: 1}
					c := newCluster(t, roomy, roomy, crash.Middleware)
					seq := sampled(5, 60, 60)
					want := c.reference(seq)
					got := c.open(seq)
					c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
					c.migrate(c.a, c.b, got.id)
					c.checkOutcome(got, want)
					if crash.Crashed() == 0 {
						t.Error("no actor crashed")
					}
					c.checkEmpty()
				})
			})
		}
	}
}

func TestMigrateRefused(t *testing.T) {
	t.Run("target has too few blocks", func(t *testing.T) { checkDisturbed(t, roomy, size{8, 6}, false, nil) })
	t.Run("target drains", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, roomy, roomy)
			want := c.reference(greedy(1, 20, 20))
			got := c.open(greedy(1, 20, 20))
			c.operator.Send(c.b.PID, &messages.DrainReplica{})
			if m := c.move(c.a, c.b).GetSequences(); len(m) != 1 || m[0].GetMoved() ||
				m[0].GetDetail() != "replica m-1 is draining" {
				t.Errorf("%v", m)
			}
			c.checkOutcome(got, want)
			if m := c.move(c.a, c.b, got.id).GetSequences(); m[0].GetMoved() || m[0].GetDetail() == "" {
				t.Errorf("finished sequence: %v", m)
			}
			if r := c.move(c.a, c.a).GetRefused(); r.GetReason() != messages.Reason_REASON_INVALID_ARGUMENT {
				t.Errorf("to itself: %v", r)
			}
			c.checkEmpty()
		})
	})
	t.Run("target stopped", func(t *testing.T) {
		checkDisturbed(t, roomy, roomy, false, func(c *cluster, _ *testClient) { c.stop(c.b) })
	})
}

// TestMigrateSessionEnds checks that a sequence whose session ends during its migration is removed
// from both replicas.
func TestMigrateSessionEnds(t *testing.T) {
	for _, how := range []string{"closes", "stops"} {
		for wait := 0; wait < 12; wait += 2 { // in chunk times, so that each stage is hit
			t.Run(fmt.Sprint(how, " after ", wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, roomy, roomy)
					got := c.open(sampled(5, 60, 60))
					c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
					id := c.migrate(c.a, c.b, got.id)
					time.Sleep(time.Duration(wait) * c.bulk.chunkTime)
					if how == "closes" {
						c.operator.Send(got.session, &messages.CloseSession{RequestId: got.id})
					} else {
						c.sys.Root.Stop(got.session)
					}
					c.waitFor("an answer", func() bool { return c.answer(id) != nil })
					time.Sleep(5 * stepTime)
					if a, b := c.status(c.a), c.status(c.b); a.GetRunning()+b.GetRunning() != 0 {
						t.Errorf("%d running at the source, %d at the target", a.GetRunning(), b.GetRunning())
					}
					c.checkEmpty()
				})
			})
		}
	}
}

// TestMigrateManyBackAndForth migrates all running and waiting sequences back and forth until they
// end.
func TestMigrateManyBackAndForth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, size{60, 6}, size{60, 6})
		var want, got []*testClient
		var specs []*messages.SequenceSpec
		for i := range uint32(9) {
			seq := greedy(i, 20+i, 50)
			if i%2 == 1 {
				seq = sampled(i, 20+i, 50)
			}
			specs = append(specs, seq)
			want = append(want, c.reference(seq))
		}
		for _, seq := range specs {
			got = append(got, c.open(seq))
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
			c.checkOutcome(got[i], want[i])
		}
		if moved < 30 {
			t.Errorf("%d moves", moved)
		}
		c.checkEmpty()
	})
}

// TestMigrateDoesNotDelayOthers checks that the other sequences of the source get a token in each
// step while a sequence migrates and is paused.
func TestMigrateDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, roomy, roomy)
		c.bulk.chunkTime = 2 * stepTime
		moves, other := c.open(sampled(1, 60, 90)), c.open(greedy(2, 10, 90))
		c.waitFor("tokens", func() bool { return len(moves.Output()) >= 3 })
		before, mine, begun := len(other.Output()), len(moves.Output()), time.Now()
		m := c.move(c.a, c.b, moves.id).GetSequences()[0]
		steps := int(time.Since(begun) / stepTime)
		if n := len(other.Output()) - before; !m.GetMoved() || n < steps-1 {
			t.Errorf("%d tokens in %d steps: %v", n, steps, m)
		}
		if n := len(moves.Output()) - mine; n < steps-2*2-2 {
			t.Errorf("%d tokens of the migrating sequence in %d steps, with a pause of two chunks", n, steps)
		}
	})
}

// TestAnnouncedIncrementsMatchSnapshot checks that the announced increments add up to the snapshot,
// across evictions and a crash.
func TestAnnouncedIncrementsMatchSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.RunStepResult", After: 70, Times: 1}
		c := newCluster(t, size{20, 6}, roomy, crash.Middleware)
		for i := range uint32(6) { // 48 blocks; 20 fit
			w := c.open(greedy(i, 40, 24))
			c.waitFor(w.id+" to end", w.done)
		}
		time.Sleep(time.Second)
		c.router.Send(c.a.PID, &messages.GetReplica{})
		synctest.Wait()
		known, lives := map[uint64]bool{}, map[uint64]bool{}
		var received []*messages.ReplicaAnnounced
		for _, m := range testkit.Got[*messages.ReplicaAnnounced](c.router) {
			if m.GetStatus().GetName() == c.a.name {
				received = append(received, m)
				lives[m.GetStatus().GetIncarnation()] = true
			}
		}
		last := received[len(received)-1]
		evictions := 0
		for _, m := range received[:len(received)-1] {
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
		if !last.GetSnapshot() || len(snapshot) < 15 || !maps.Equal(known, snapshot) || evictions == 0 ||
			len(lives) != 2 {
			t.Errorf("increments have %d blocks, the snapshot %d; %d evictions, %d incarnations", len(known),
				len(snapshot), evictions, len(lives))
		}
		if received[0].GetStatus().GetNode() != "node-m-0" || last.GetStatus().GetBlockTokens() != 8 {
			t.Errorf("%v", last.GetStatus())
		}
	})
}

// TestIdleReplicaAnnounces checks that an idle replica announces its status every 300 ms.
func TestIdleReplicaAnnounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, roomy, roomy)
		before := len(testkit.Got[*messages.ReplicaAnnounced](c.router))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := len(testkit.Got[*messages.ReplicaAnnounced](c.router)) - before; n < 2*9 || n > 2*11 {
			t.Errorf("%d announcements by two replicas in 3 s", n)
		}
	})
}

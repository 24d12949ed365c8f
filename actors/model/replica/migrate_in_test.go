package replica_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	transfers "troupe/actors/model/replica/migration/transfer"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit"
)

// fakeSource acts as a source replica and as the session of its sequences.
type fakeSource struct {
	*cluster
	*testkit.Peer
	session *testkit.Peer
}

func newFakeSource(t *testing.T, target size) *fakeSource {
	c := newCluster(t, roomy, target)
	return &fakeSource{c, testkit.NewPeer(t, c.sys, "source", nil), testkit.NewPeer(t, c.sys, "session", nil)}
}

// offer returns an offer with 19 computed tokens, a whole prompt: two full blocks and a partial
// one.
func (s *fakeSource) offer(id string, attempt uint64) *messages.OfferSequence {
	seq := greedy(1, 19, 30)
	o := &messages.OfferSequence{
		RequestId: id, Attempt: attempt, Sequence: seq, Tokens: 19, BlockTokens: 8,
		BlockBytes: uint64(s.b.blockBytes), Layout: s.b.layout,
		Session: &messages.ActorRef{Address: s.session.PID.GetAddress(), Id: s.session.PID.GetId()},
	}
	for _, h := range kv.Hashes(kv.Root("m", "", nil), seq.GetPrompt(), 8) {
		o.Hashes = append(o.Hashes, h[:])
	}
	return o
}

func (s *fakeSource) send(m proto.Message) {
	s.Send(s.b.PID, m)
	synctest.Wait()
}

// lastOffer returns the last answer to an offer and the number of answers.
func (s *fakeSource) lastOffer() (*messages.OfferSequenceResult, int) {
	all := testkit.Got[*messages.OfferSequenceResult](s.Peer)
	if len(all) == 0 {
		return nil, 0
	}
	return all[len(all)-1], len(all)
}

func (s *fakeSource) lastResume() (*messages.ResumeSequenceResult, int) {
	all := testkit.Got[*messages.ResumeSequenceResult](s.Peer)
	if len(all) == 0 {
		return nil, 0
	}
	return all[len(all)-1], len(all)
}

// fill stores chunks of the last accepted offer.
func (s *fakeSource) fill(chunks ...uint32) error {
	o, _ := s.lastOffer()
	s.bulk.mu.Lock()
	t := s.bulk.open[o.GetAccepted().GetTicket().GetTransfer()]
	s.bulk.mu.Unlock()
	for _, i := range chunks {
		if err := t.put(i, make([]byte, s.b.blockBytes)); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeSource) resume(id string, attempt uint64) *messages.ResumeSequence {
	return &messages.ResumeSequence{
		RequestId: id, Attempt: attempt, Output: []uint32{7}, Tokens: 19,
		Logprobs: []*messages.TokenLogprobs{{Logprob: -1}},
	}
}

func (s *fakeSource) freeBlocks() int { return int(s.status(s.b).GetKvBlocksFree()) }

func TestTargetKeepsReservationWhileBlocksArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSource(t, roomy)
		s.send(s.offer("r", 5))
		s.send(s.offer("r", 5))
		s.send(s.offer("r", 4)) // delayed duplicate
		o, n := s.lastOffer()
		if n != 2 || fmt.Sprint(o.GetAccepted().GetMissing()) != "[0 1]" || len(s.bulk.open) != 1 {
			t.Fatalf("%d answers, the last %v; %d transfers", n, o, len(s.bulk.open))
		}
		free := s.freeBlocks()
		time.Sleep(4 * time.Second)
		if err := s.fill(0); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second)
		if s.freeBlocks() != free || free >= 40-2 {
			t.Errorf("%d blocks free while a sequence arrives, want %d", s.freeBlocks(), free)
		}
		time.Sleep(4 * time.Second)
		if s.freeBlocks() != 40 || len(s.bulk.open) != 0 {
			t.Errorf("%d blocks free after the timeout, %d open transfers", s.freeBlocks(), len(s.bulk.open))
		}
		s.send(s.resume("r", 5))
		if r, _ := s.lastResume(); r.GetRefused().GetReason() != messages.Reason_REASON_NOT_FOUND {
			t.Errorf("resumed without a reservation: %v", r)
		}
	})
}

func TestTargetFreesReservation(t *testing.T) {
	for name, end := range map[string]func(*fakeSource){
		"abandoned":      func(s *fakeSource) { s.send(&messages.AbandonSequence{RequestId: "r", Attempt: 5}) },
		"source stopped": func(s *fakeSource) { s.Stop() },
		"missing blocks": func(s *fakeSource) { s.send(s.resume("r", 5)) },
		"other number of tokens": func(s *fakeSource) {
			_ = s.fill(0, 1, 2)
			r := s.resume("r", 5)
			r.Tokens = 25
			s.send(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeSource(t, roomy)
				s.send(s.offer("r", 5))
				s.bulk.mu.Lock()
				put := s.bulk.open["t1"].put
				s.bulk.mu.Unlock()
				end(s)
				synctest.Wait()
				if s.freeBlocks() != 40 || len(s.bulk.open) != 0 || s.status(s.b).GetRunning() != 0 {
					t.Errorf("%d blocks free, %d open transfers", s.freeBlocks(), len(s.bulk.open))
				}
				if put(1, make([]byte, s.b.blockBytes)) == nil {
					t.Error("a block was written after its reservation ended")
				}
			})
		})
	}
}

// TestTargetAdoptsOnce checks that a repeated ResumeSequence gets the same answer, and that the
// source can abandon the sequence until its session has contacted the target.
func TestTargetAdoptsOnce(t *testing.T) {
	for _, spoken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeSource(t, roomy)
			s.send(s.offer("r", 5))
			if err := s.fill(1, 0, 2); err != nil {
				t.Fatal(err)
			}
			s.send(s.resume("r", 5))
			s.send(s.resume("r", 5))
			r, n := s.lastResume()
			if n != 2 || r.GetRefused() != nil || r.GetIncarnation() != 1 || r.GetNode() != "node-m-1" ||
				s.status(s.b).GetMigratedIn() != 1 {
				t.Fatalf("%d answers, the last %v", n, r)
			}
			if spoken {
				s.session.Send(s.b.PID, &messages.SubmitSequence{RequestId: "r",
					Sequence: s.offer("r", 5).GetSequence()})
				synctest.Wait()
				first := testkit.Got[*messages.TokensEmitted](s.session)[0]
				if first.GetFirstIndex() != 0 || first.GetTokens()[0] != 7 ||
					len(first.GetLogprobs()) != len(first.GetTokens()) || first.GetLogprobs()[0].GetLogprob() != -1 {
					t.Errorf("the source's output is repeated as %v", first)
				}
			}
			s.send(&messages.AbandonSequence{RequestId: "r", Attempt: 5})
			if running := s.status(s.b).GetRunning(); (running == 1) != spoken {
				t.Errorf("%d running after the source abandoned it; claimed by its session: %v", running, spoken)
			}
			s.waitFor("its end", func() bool { return s.freeBlocks() == 40 })
		})
	}
}

func TestTargetRefusesOffer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*messages.OfferSequence)
		want   messages.Reason
	}{
		"another layout": {func(o *messages.OfferSequence) { o.Layout += "x" },
			messages.Reason_REASON_INVALID_ARGUMENT},
		"other block tokens": {func(o *messages.OfferSequence) { o.BlockTokens = 16 },
			messages.Reason_REASON_INVALID_ARGUMENT},
		"other block bytes": {func(o *messages.OfferSequence) { o.BlockBytes++ },
			messages.Reason_REASON_INVALID_ARGUMENT},
		"another model": {func(o *messages.OfferSequence) { o.Sequence.Model = "x" },
			messages.Reason_REASON_INVALID_ARGUMENT},
		"too long": {func(o *messages.OfferSequence) { o.Sequence.Sampling.MaxTokens = 22 },
			messages.Reason_REASON_TOO_LONG},
		"too few hashes": {func(o *messages.OfferSequence) { o.Hashes = o.Hashes[1:] },
			messages.Reason_REASON_INVALID_ARGUMENT},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeSource(t, size{5, 6})
				o := s.offer("r", 5)
				o.Sequence.Sampling.MaxTokens = 20
				tc.change(o)
				s.send(o)
				if r, _ := s.lastOffer(); r.GetRefused().GetReason() != tc.want || r.GetRefused().GetDetail() == "" {
					t.Errorf("%v", r)
				}
				s.checkEmpty()
			})
		})
	}
	t.Run("too many incoming sequences", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeSource(t, size{120, 20})
			for i := range uint64(9) {
				s.send(s.offer(fmt.Sprint(i), i+1))
			}
			if r, n := s.lastOffer(); n != 9 || r.GetRefused().GetReason() != messages.Reason_REASON_QUEUE_FULL {
				t.Errorf("%v", r)
			}
			s.checkEmpty()
		})
	})
}

// TestTargetDoesNotOverwriteSharedBlocks checks that a shared block is not written again.
func TestTargetDoesNotOverwriteSharedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSource(t, roomy)
		s.session.Send(s.b.PID, &messages.SubmitSequence{RequestId: "before", Sequence: greedy(1, 19, 2)})
		s.waitFor("its end", func() bool { return s.freeBlocks() == 40 && s.status(s.b).GetSteps() > 1 })
		s.send(s.offer("r", 5))
		if o, _ := s.lastOffer(); o.GetAccepted() == nil || len(o.GetAccepted().GetMissing()) != 0 {
			t.Errorf("%v", o)
		}
		if s.fill(1) == nil || s.fill(2) != nil {
			t.Error("a shared block was written, or an own block was not")
		}
		s.send(s.resume("r", 5))
		if r, _ := s.lastResume(); r.GetRefused() != nil {
			t.Errorf("%v", r)
		}
	})
}

// TestTransfersCrash crashes the transfers actor of the source or the target at each stage of a
// migration. The sequence continues, at the source or at the target.
func TestTransfersCrash(t *testing.T) {
	for _, at := range []string{"source", "target"} {
		for wait := range 8 { // in chunk times, so that each stage is hit
			t.Run(fmt.Sprint(at, " after ", wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, roomy, roomy)
					node := map[string]*testNode{"source": c.a, "target": c.b}[at]
					want, got := c.reference(sampled(5, 60, 60)), c.open(sampled(5, 60, 60))
					c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
					id := c.migrate(c.a, c.b, got.id)
					time.Sleep(time.Duration(wait) * c.bulk.chunkTime)
					// A command without an answer makes it panic.
					c.sys.Root.Send(actor.NewPID(node.GetAddress(), node.GetId()+"/transfers"),
						&transfers.OpenSink{Command: transfers.Command{Incarnation: 1}})
					c.checkOutcome(got, want)
					c.waitFor("an answer", func() bool { return c.answer(id) != nil })
					if m := c.answer(id).GetSequences()[0]; m.GetMoved() == (m.GetDetail() != "") {
						t.Errorf("%v", m)
					}
					if a, b := c.status(c.a), c.status(c.b); a.GetIncarnation() != 1 || b.GetIncarnation() != 1 {
						t.Error("a replica crashed too")
					}
					next := c.open(sampled(5, 60, 60))
					c.waitFor("tokens", func() bool { return len(next.Output()) >= 3 })
					if m := c.move(c.a, c.b, next.id).GetSequences()[0]; !m.GetMoved() {
						t.Errorf("after the crash: %v", m)
					}
					c.checkOutcome(next, want)
					c.checkEmpty()
				})
			})
		}
	}
}

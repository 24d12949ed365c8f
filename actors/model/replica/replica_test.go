package replica_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

const (
	loading  = messages.ReplicaState_REPLICA_STATE_LOADING
	serving  = messages.ReplicaState_REPLICA_STATE_SERVING
	failed   = messages.ReplicaState_REPLICA_STATE_FAILED
	draining = messages.ReplicaState_REPLICA_STATE_DRAINING
)

func TestServesSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: time.Millisecond}, loaded)
		for i := range uint32(4) {
			s.submit(fmt.Sprint(i), spec(3+i, 10))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i := range uint32(4) {
			s.checkServed(fmt.Sprint(i), 3+i, 10)
		}
		if got := s.states(); !slices.Equal(got, []messages.ReplicaState{loading, serving}) {
			t.Errorf("states %v", got)
		}
		answer, err := s.root.RequestFuture(s.replica, &messages.GetReplica{}, time.Second).Result()
		if r, ok := answer.(*messages.ReplicaStatus); !ok || r.GetTokensIn()+r.GetTokensCached() != 3+4+5+6 ||
			r.GetTokensOut() != 40 {
			t.Errorf("counted: %v, %v", answer, err)
		}
	})
}

func TestSubmitRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: time.Second}, loaded)
		for i := range uint32(8) {
			s.submit(fmt.Sprint(i), spec(3, 10))
		}
		s.submit("long", spec(64, 1))
		var reasons []messages.Reason
		for _, r := range testkit.Got[*messages.SubmitSequenceResult](s.client) {
			if r.GetRefused() != nil {
				reasons = append(reasons, r.GetRefused().GetReason())
			}
		}
		want := []messages.Reason{messages.Reason_REASON_QUEUE_FULL, messages.Reason_REASON_QUEUE_FULL,
			messages.Reason_REASON_TOO_LONG}
		if !slices.Equal(reasons, want) {
			t.Errorf("refused with %v, want %v", reasons, want)
		}
	})
}

// TestSubmitTwiceRunsOnce checks that a sequence submitted twice runs once, and that the second
// requester gets the tokens that it has not seen.
func TestSubmitTwiceRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: 10 * time.Millisecond}
		s := newHarness(t, c, loaded)
		s.submit("r", spec(3, 10))
		time.Sleep(55 * time.Millisecond)
		synctest.Wait()
		s.submit("r", spec(3, 10), 3, 4)
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("r", 3, 10)
		if c.steps != 10 {
			t.Errorf("%d steps for 10 tokens", c.steps)
		}
	})
}

func TestSubmitContinuesFromOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: time.Millisecond}, loaded)
		s.submit("r", spec(3, 10), 3, 4, 5)
		time.Sleep(time.Second)
		synctest.Wait()
		first := testkit.Got[*messages.TokensEmitted](s.client)[0]
		if first.GetFirstIndex() != 3 || first.GetTokens()[0] != 6 {
			t.Errorf("continued with %v", first)
		}
		s.submit("whole", spec(3, 2), 3, 4)
		if _, done := s.output("whole"); !done {
			t.Error("a sequence whose output is complete is not finished")
		}
	})
}

func TestEngineCrashIsInvisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: time.Millisecond, crash: func(step int, _ []engine.Sequence) error {
			if step == 4 {
				return errors.New("illegal address")
			}
			return nil
		}}
		s := newHarness(t, c, loaded)
		s.submit("a", spec(3, 10))
		s.submit("b", spec(5, 10))
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("a", 3, 10)
		s.checkServed("b", 5, 10)
		if c.overlapped {
			t.Error("two engines were open at the same time")
		}
	})
}

// TestPoisonSequenceIsDropped checks that only the sequence that crashes the engine is interrupted.
func TestPoisonSequenceIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: time.Millisecond, crash: func(_ int, batch []engine.Sequence) error {
			for _, s := range batch {
				if s.Tokens[0] == 66 {
					return errors.New("poison")
				}
			}
			return nil
		}}
		s := newHarness(t, c, loaded)
		bad := spec(3, 10)
		bad.Prompt[0] = 66
		s.submit("a", spec(3, 10))
		s.submit("bad", bad)
		s.submit("b", spec(5, 10))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.checkServed("a", 3, 10)
		s.checkServed("b", 5, 10)
		lost := testkit.Got[*messages.SequenceInterrupted](s.client)
		if len(lost) != 1 || lost[0].GetRequestId() != "bad" ||
			lost[0].GetRefused().GetReason() != messages.Reason_REASON_ENGINE_FAILED {
			t.Errorf("interrupted: %v", lost)
		}
	})
}

// TestReplicaCrashKeepsWeightsAndBlocks checks that sessions are interrupted immediately and that
// the successor adopts weights and blocks.
func TestReplicaCrashKeepsWeightsAndBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: 10 * time.Millisecond}
		crash := &testkit.Crash{On: "*messages.RunStepResult", After: 5, Times: 1}
		s := newHarness(t, c, loaded, crash.Middleware)
		s.submit("r", spec(9, 20))
		time.Sleep(70 * time.Millisecond)
		synctest.Wait()
		lost := testkit.Got[*messages.SequenceInterrupted](s.client)
		if len(lost) != 1 || lost[0].GetRefused().GetReason() != messages.Reason_REASON_NOT_READY {
			t.Fatalf("interrupted: %v", lost)
		}
		seen, _ := s.output("r")
		first := 1 << 20 // position that is computed again
		c.crash = func(_ int, batch []engine.Sequence) error {
			first = min(first, batch[0].Position)
			return nil
		}
		s.submit("r", spec(9, 20), seen...)
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("r", 9, 20)
		if c.overlapped {
			t.Error("two engines were open at the same time")
		}
		if first < 8 {
			t.Errorf("%d tokens were found in the previous incarnation's blocks", first)
		}
	})
}

func TestDrainFinishesRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: 10 * time.Millisecond}, loaded)
		s.submit("r", spec(3, 10))
		s.deploy.Send(s.replica, &messages.DrainReplica{})
		s.submit("late", spec(3, 10))
		if len(testkit.Got[*messages.ReplicaDrained](s.deploy)) != 0 {
			t.Error("drained while a sequence ran")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("r", 3, 10)
		results := testkit.Got[*messages.SubmitSequenceResult](s.client)
		if got := results[len(results)-1].GetRefused().GetReason(); got != messages.Reason_REASON_DRAINING {
			t.Errorf("a late sequence was answered with %v", got)
		}
		if len(testkit.Got[*messages.ReplicaDrained](s.deploy)) != 1 || s.states()[len(s.states())-1] != draining {
			t.Errorf("drained %d times, states %v", len(testkit.Got[*messages.ReplicaDrained](s.deploy)), s.states())
		}
	})
}

func TestCancelFreesBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: 10 * time.Millisecond}, loaded)
		s.submit("r", spec(3, 50))
		time.Sleep(35 * time.Millisecond)
		synctest.Wait()
		s.client.Send(s.replica, &messages.CancelSequence{RequestId: "r"})
		synctest.Wait()
		before, _ := s.output("r")
		time.Sleep(time.Second)
		synctest.Wait()
		if after, _ := s.output("r"); len(after) != len(before) {
			t.Errorf("%d tokens came after the cancellation", len(after)-len(before))
		}
		status := testkit.Got[*messages.ReplicaChanged](s.deploy)
		if last := status[len(status)-1].GetStatus(); last.GetRunning() != 0 ||
			last.GetKvBlocksFree() != last.GetKvBlocks() {
			t.Errorf("%d running, %d of %d blocks free", last.GetRunning(), last.GetKvBlocksFree(), last.GetKvBlocks())
		}
	})
}

func TestLoadRefusedFailsReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{}, func(int) *messages.LoadModelResult {
			return &messages.LoadModelResult{Outcome: &messages.LoadModelResult_Refused{
				Refused: &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: "short"},
			}}
		})
		changes := testkit.Got[*messages.ReplicaChanged](s.deploy)
		if last := changes[len(changes)-1]; last.GetStatus().GetState() != failed ||
			last.GetFailure().GetDetail() != "short" {
			t.Errorf("%v", last)
		}
	})
}

func TestLoadIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{}, func(n int) *messages.LoadModelResult {
			if n < 4 {
				return nil
			}
			return loaded(n)
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []messages.ReplicaState{loading, serving}) {
			t.Errorf("states %v", got)
		}
	})
}

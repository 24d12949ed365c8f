package session_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/model/session"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// TestStoppedReplicaIsLost checks that the session watches its replica.
func TestStoppedReplicaIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.replica.Stop()
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		routes := testkit.Got[*messages.RouteSequence](s.router)
		if len(routes) < 2 || !strings.HasPrefix(routes[1].GetCause(), "m-0 is unreachable") {
			t.Errorf("routes: %v", routes)
		}
	})
}

// TestLeftReplicaIsUnwatched checks that the session hears nothing of replicas and timers that it
// has replaced.
func TestLeftReplicaIsUnwatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := playMoving(t)
		m.sendMoved(m.replica)
		m.replica.Stop()
		time.Sleep(time.Second)
		synctest.Wait()
		if log := m.log.String(); strings.Contains(log, "ignored") {
			t.Error(log)
		}
		m.target.Send(m.session, &messages.SequenceInterrupted{RequestId: "r", Incarnation: 2})
		synctest.Wait()
		if log := m.log.String(); !strings.Contains(log, "of an earlier incarnation") {
			t.Errorf("the interruption by an earlier incarnation was not ignored: %s", log)
		}
	})
}

// TestEndStopsActor checks that a session that ended is stopped, and its timer with it.
func TestEndStopsActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		var dead atomic.Int32 // messages to the stopped session
		s.router.System().EventStream.Subscribe(func(e any) {
			if d, ok := e.(*actor.DeadLetterEvent); ok && d.PID.Equal(s.session) {
				dead.Add(1)
			}
		})
		s.emitFinal(length, 0, 10)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := dead.Load(); n != 0 {
			t.Errorf("%d notes to the stopped session", n)
		}
		s.emit(1, 11)
		if dead.Load() != 1 {
			t.Error("the session is not stopped")
		}
	})
}

// TestLogprobsFollowTokens checks that the client gets one logprob per token, also after repeats.
func TestLogprobsFollowTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		for _, scores := range [][]float32{{-1}, {-1, -2}} {
			msg := &messages.TokensEmitted{RequestId: "r", Incarnation: 1}
			for i, score := range scores {
				msg.Tokens = append(msg.Tokens, uint32(10+i))
				msg.Logprobs = append(msg.Logprobs, &messages.TokenLogprobs{Logprob: score})
			}
			s.replica.Send(s.session, msg)
			synctest.Wait()
		}
		if s.expectOutput(10, 11); !slices.Equal(s.scores, []float32{-1, -2}) {
			t.Errorf("logprobs %v", s.scores)
		}
	})
}

// TestRefusalIsRelayedWhole checks that the client gets the refusal of the router unchanged.
func TestRefusalIsRelayedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: "full",
			RetryAfter: durationpb.New(time.Second), Memory: &messages.MemoryShortage{Model: "m", Bytes: 7}}
		if s := play(t, func(int) *messages.Refused { return want }); !proto.Equal(s.refused, want) {
			t.Errorf("%v", s.refused)
		}
	})
}

// TestRefusedSubmissionIsExplained checks that the session waits as long as the replica says and
// then tells the router why it asks again.
func TestRefusedSubmissionIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, func(n int) *messages.Refused {
			if n == 1 {
				return &messages.Refused{
					Reason: messages.Reason_REASON_NOT_READY, RetryAfter: durationpb.New(time.Second),
				}
			}
			return nil
		})
		s.stateMu.Lock()
		s.refusal = &messages.Refused{Reason: messages.Reason_REASON_DRAINING, Detail: "draining",
			RetryAfter: durationpb.New(time.Second)}
		s.stateMu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if n := len(testkit.Got[*messages.RouteSequence](s.router)); n != 2 {
			t.Errorf("%d route requests within 1.5 s, want 2", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		routes := testkit.Got[*messages.RouteSequence](s.router)
		if len(routes) != 3 || routes[2].GetCause() != "m-0 refused the request: draining" {
			t.Errorf("routes: %v", routes)
		}
	})
}

// TestAdapterBelongsToWeights checks that a sequence with an adapter is not tried with other
// weights.
func TestAdapterBelongsToWeights(t *testing.T) {
	for adapter, want := range map[string]messages.Reason{
		"m:a": messages.Reason_REASON_WEIGHTS_DIFFER, "": messages.Reason_REASON_UNSPECIFIED,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := playSequence(t, &messages.SequenceSpec{Model: "m", Adapter: adapter}, func(n int) *messages.Refused {
				if n == 1 {
					return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY}
				}
				return nil
			})
			s.stateMu.Lock()
			s.refusal = &messages.Refused{Reason: messages.Reason_REASON_WEIGHTS_DIFFER}
			s.stateMu.Unlock()
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if s.refused.GetReason() != want {
				t.Errorf("adapter %q: %v", adapter, s.refused)
			}
		})
	}
}

// TestTimerOfEarlierIncarnationIsIgnored lets a timer fire while its session is about to crash.
func TestTimerOfEarlierIncarnationIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, turn := testkit.System(t), make(chan struct{}, 1)
		router := testkit.NewPeer(t, sys, "router", nil)
		crash := &testkit.Crash{On: "*messages.TokensEmitted", Times: 1}
		turn <- struct{}{}
		pid := testkit.Spawn(t, sys, "session", supervise.Strategy(nil), session.Props(session.Config{
			RequestID: "r", Client: &client{}, Router: router.PID, Sequence: &messages.SequenceSpec{Model: "m"},
		}), func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				turn <- <-turn
				next(ctx, env)
			}
		}, crash.Middleware)
		synctest.Wait()
		<-turn
		router.Send(pid, &messages.TokensEmitted{RequestId: "r"})
		time.Sleep(500 * time.Millisecond) // the timer fires after 400 ms
		turn <- struct{}{}
		synctest.Wait()
		if n := len(testkit.Got[*messages.RouteSequence](router)); n != 2 || crash.Crashed() != 1 {
			t.Errorf("%d route requests, want one per incarnation; %d crashes", n, crash.Crashed())
		}
	})
}

// TestUnknownMessageIsLogged checks that a message that sessions do not know is logged and ignored.
func TestUnknownMessageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.router.Send(s.session, &messages.GetGpu{})
		synctest.Wait()
		if log := s.log.String(); !strings.Contains(log, "unknown message") || !strings.Contains(log, "GetGpu") {
			t.Errorf("log: %s", log)
		}
	})
}

package session_test

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/model/session"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// client records what it receives.
type client struct {
	mu      sync.Mutex
	output  []uint32
	scores  []float32 // logprobs of the output
	finish  messages.FinishReason
	refused *messages.Refused
	ends    int
	left    bool
}

func (c *client) Output() []uint32 { c.mu.Lock(); defer c.mu.Unlock(); return slices.Clone(c.output) }
func (c *client) Deliver(tokens []uint32, logprobs []*messages.TokenLogprobs, _ uint32, finish messages.FinishReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = append(c.output, tokens...)
	for _, l := range logprobs {
		c.scores = append(c.scores, l.GetLogprob())
	}
	if finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED {
		c.finish = finish
		c.ends++
	}
}
func (c *client) Left() bool               { c.mu.Lock(); defer c.mu.Unlock(); return c.left }
func (c *client) leave()                   { c.mu.Lock(); defer c.mu.Unlock(); c.left = true }
func (c *client) Fail(r *messages.Refused) { c.mu.Lock(); defer c.mu.Unlock(); c.refused = r; c.ends++ }

// stage is a session whose router and replica the test plays.
type stage struct {
	*client
	t       *testing.T
	router  *testkit.Peer
	replica *testkit.Peer
	stateMu sync.Mutex
	emitted uint32            // output tokens of the replica
	silent  bool              // the replica does not answer GetSequence
	next    string            // replica that the router returns; empty: m-0
	refusal *messages.Refused // of the replica
	session *actor.PID
	log     bytes.Buffer
}

// play starts a session. Its replica accepts every sequence. route returns the refusal of the n-th
// route request, or nil.
func play(t *testing.T, route func(int) *messages.Refused, mw ...actor.ReceiverMiddleware) *stage {
	return playSequence(t, &messages.SequenceSpec{Model: "m", Prompt: []uint32{1},
		Deadline: timestamppb.New(time.Now().Add(time.Minute))}, route, mw...)
}

// playSequence is play for a given sequence.
func playSequence(t *testing.T, sequence *messages.SequenceSpec, route func(int) *messages.Refused,
	mw ...actor.ReceiverMiddleware,
) *stage {
	sys := testkit.System(t)
	s := &stage{client: &client{}, t: t}
	supervise.CountUnknown(sys, prometheus.NewRegistry(), zerolog.New(&s.log))
	s.replica = testkit.NewPeer(t, sys, "replica", func(m proto.Message) proto.Message {
		if m, ok := m.(*messages.SubmitSequence); ok {
			s.stateMu.Lock()
			defer s.stateMu.Unlock()
			if s.refusal != nil {
				return &messages.SubmitSequenceResult{
					Outcome: &messages.SubmitSequenceResult_Refused{Refused: s.refusal},
				}
			}
			return &messages.SubmitSequenceResult{RequestId: m.GetRequestId(), Incarnation: 1,
				Outcome: &messages.SubmitSequenceResult_Accepted{
					Accepted: &messages.SequenceAccepted{RevisionDigest: "one"},
				}}
		}
		s.stateMu.Lock()
		defer s.stateMu.Unlock()
		if _, ok := m.(*messages.GetSequence); ok && !s.silent {
			return &messages.SequenceStatus{Known: true, OutputTokens: s.emitted}
		}
		return nil
	})
	routes := 0
	s.router = testkit.NewPeer(t, sys, "router", func(m proto.Message) proto.Message {
		routes++
		if refused := route(routes); refused != nil {
			return &messages.RouteSequenceResult{Outcome: &messages.RouteSequenceResult_Refused{Refused: refused}}
		}
		s.stateMu.Lock()
		defer s.stateMu.Unlock()
		routed := &messages.SequenceRouted{
			Replica: cmp.Or(s.next, "m-0"), Incarnation: 1,
			Actor: &messages.ActorRef{Address: s.replica.PID.GetAddress(), Id: s.replica.PID.GetId()},
		}
		return &messages.RouteSequenceResult{Outcome: &messages.RouteSequenceResult_Routed{Routed: routed}}
	})
	s.session = testkit.Spawn(t, sys, "session", supervise.Strategy(nil), session.Props(session.Config{
		RequestID: "r", Client: s.client, Router: s.router.PID, Sequence: sequence, Log: zerolog.New(&s.log),
	}), mw...)
	synctest.Wait()
	return s
}

func always(int) *messages.Refused { return nil }

// emit sends tokens from the replica.
func (s *stage) emit(first uint32, tokens ...uint32) {
	s.emitFinal(messages.FinishReason_FINISH_REASON_UNSPECIFIED, first, tokens...)
}

func (s *stage) emitFinal(finish messages.FinishReason, first uint32, tokens ...uint32) {
	s.stateMu.Lock()
	s.emitted = max(s.emitted, first+uint32(len(tokens)))
	s.stateMu.Unlock()
	s.replica.Send(s.session, &messages.TokensEmitted{RequestId: "r", Incarnation: 1, FirstIndex: first,
		Tokens: tokens, Finish: finish})
	synctest.Wait()
}

// submitted returns the output in the last submission, and the number of submissions.
func (s *stage) submitted() ([]uint32, int) {
	all := testkit.Got[*messages.SubmitSequence](s.replica)
	return all[len(all)-1].GetOutput(), len(all)
}

func (s *stage) expectOutput(want ...uint32) {
	s.t.Helper()
	if got := s.Output(); !slices.Equal(got, want) {
		s.t.Errorf("the client received %v, want %v", got, want)
	}
}

const length = messages.FinishReason_FINISH_REASON_LENGTH

func TestTokensAreDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.emit(0, 10)
		s.emit(0, 10) // repeats all
		s.emit(0, 10, 11)
		s.emitFinal(length, 1, 11, 12)
		s.expectOutput(10, 11, 12)
		if s.finish != length || s.ends != 1 {
			t.Errorf("finish %v, ended %d times", s.finish, s.ends)
		}
	})
}

func TestGapIsResubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.emit(0, 10)
		s.emit(2, 12)
		if output, n := s.submitted(); n != 2 || !slices.Equal(output, []uint32{10}) {
			t.Errorf("%d submissions, the last with %v", n, output)
		}
		s.expectOutput(10)
	})
}

func TestInterruptionIsResubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.emit(0, 10, 11)
		s.replica.Send(s.session, &messages.SequenceInterrupted{RequestId: "r", Incarnation: 1,
			Refused: &messages.Refused{
				Reason: messages.Reason_REASON_NOT_READY, RetryAfter: durationpb.New(30 * time.Millisecond),
			}})
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if output, n := s.submitted(); n != 2 || !slices.Equal(output, []uint32{10, 11}) {
			t.Errorf("%d submissions, the last with %v", n, output)
		}
	})
}

func TestRepeatedInterruptionsFailRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		for range 20 {
			s.replica.Send(s.session, &messages.SequenceInterrupted{RequestId: "r", Incarnation: 1,
				Refused: &messages.Refused{Reason: messages.Reason_REASON_NOT_READY}})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if s.refused.GetReason() != messages.Reason_REASON_ENGINE_FAILED || s.ends != 1 {
			t.Errorf("%v, ended %d times", s.refused, s.ends)
		}
	})
}

func TestNotReadyIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, func(n int) *messages.Refused {
			if n < 5 {
				return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY,
					RetryAfter: durationpb.New(time.Second)}
			}
			return nil
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, n := s.submitted(); n != 1 {
			t.Errorf("submitted %d times", n)
		}
	})
}

func TestRefusalFailsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, func(int) *messages.Refused {
			return &messages.Refused{Reason: messages.Reason_REASON_QUEUE_FULL}
		})
		if s.refused.GetReason() != messages.Reason_REASON_QUEUE_FULL {
			t.Errorf("%v", s.refused)
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.emit(0, 10)
		time.Sleep(62 * time.Second)
		synctest.Wait()
		if s.refused.GetReason() != messages.Reason_REASON_DEADLINE || s.ends != 1 {
			t.Errorf("%v, ended %d times", s.refused, s.ends)
		}
		if len(testkit.Got[*messages.CancelSequence](s.replica)) != 1 {
			t.Error("the replica received no CancelSequence")
		}
	})
}

func TestRouteIsRetriedUntilRouterStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		c := &client{}
		testkit.Spawn(t, sys, "session", supervise.Strategy(nil), session.Props(session.Config{
			RequestID: "r", Client: c, Router: actor.NewPID(sys.Address(), "router"),
			Sequence: &messages.SequenceSpec{Model: "m"},
		}))
		time.Sleep(10 * time.Second)
		if c.refused != nil {
			t.Fatalf("%v", c.refused)
		}
		router := testkit.NewPeer(t, sys, "router", func(proto.Message) proto.Message {
			refused := &messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND}
			return &messages.RouteSequenceResult{Outcome: &messages.RouteSequenceResult_Refused{Refused: refused}}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if len(testkit.Got[*messages.RouteSequence](router)) != 1 ||
			c.refused.GetReason() != messages.Reason_REASON_NOT_FOUND {
			t.Errorf("%d route requests, refused with %v", len(testkit.Got[*messages.RouteSequence](router)),
				c.refused)
		}
	})
}

func TestCloseCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.router.Send(s.session, &messages.CloseSession{RequestId: "r"})
		synctest.Wait()
		if len(testkit.Got[*messages.CancelSequence](s.replica)) != 1 || s.ends != 0 {
			t.Errorf("cancelled %d times, ended %d", len(testkit.Got[*messages.CancelSequence](s.replica)), s.ends)
		}
	})
}

// TestCrashOnCloseCancels checks that a session whose client has left cancels its sequence and ends,
// even if it crashes on the message that closes it, or crashes first.
func TestCrashOnCloseCancels(t *testing.T) {
	for _, on := range []string{"*messages.CloseSession", "*messages.TokensEmitted"} {
		synctest.Test(t, func(t *testing.T) {
			crash := &testkit.Crash{On: on, Times: 1}
			s := play(t, always, crash.Middleware)
			s.leave()
			s.emit(0, 10)
			s.router.Send(s.session, &messages.CloseSession{RequestId: "r"})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			routes := testkit.Got[*messages.RouteSequence](s.router)
			cancels := testkit.Got[*messages.CancelSequence](s.replica)
			if _, alive := s.router.System().ProcessRegistry.GetLocal(s.session.GetId()); alive || len(routes) != 1 ||
				len(cancels) != 1 || crash.Crashed() != 1 {
				t.Errorf("crash on %s: alive: %v, %d routes, %d cancels, %d crashes", on, alive, len(routes),
					len(cancels), crash.Crashed())
			}
		})
	}
}

// TestRestartContinuesStream checks that a restarted session continues after the tokens that the
// client has.
func TestRestartContinuesStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.TokensEmitted", After: 1, Times: 1}
		s := play(t, always, crash.Middleware)
		s.emit(0, 10)
		s.emit(1, 11) // lost in the crash
		if output, n := s.submitted(); n != 2 || !slices.Equal(output, []uint32{10}) {
			t.Errorf("%d submissions, the last with %v", n, output)
		}
		s.emitFinal(length, 1, 11)
		s.expectOutput(10, 11)
	})
}

package session_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
	"troupe/testkit"
)

// TestSilentReplicaIsQueried checks that a replica that lost the sequence gets it again, with the
// output.
func TestSilentReplicaIsQueried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.emit(0, 10)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if len(testkit.Got[*messages.GetSequence](s.replica)) == 0 {
			t.Fatal("the silent replica was not queried")
		}
		s.replica.Send(s.session, &messages.SequenceStatus{RequestId: "r", Known: true, OutputTokens: 1})
		synctest.Wait()
		if _, n := s.submitted(); n != 1 {
			t.Errorf("submitted %d times, though the replica has the sequence", n)
		}
		s.replica.Send(s.session, &messages.SequenceStatus{RequestId: "r"})
		synctest.Wait()
		if output, n := s.submitted(); n != 2 || !slices.Equal(output, []uint32{10}) {
			t.Errorf("%d submissions, the last with %v", n, output)
		}
	})
}

// TestSilentReplicaIsAbandoned checks that a replica that does not answer is cancelled if the
// router returns another one. Otherwise it gets the sequence again.
func TestSilentReplicaIsAbandoned(t *testing.T) {
	for _, other := range []string{"m-0", "m-1"} {
		synctest.Test(t, func(t *testing.T) {
			s := play(t, always)
			s.emit(0, 10)
			s.stateMu.Lock()
			s.silent, s.next = true, other
			s.stateMu.Unlock()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			routes := testkit.Got[*messages.RouteSequence](s.router)
			if len(routes) != 2 || routes[1].GetAvoid() != nil ||
				routes[1].GetCause() != "m-0 was silent for 1.2s" ||
				!slices.Equal(routes[1].GetPrompt(), []uint32{1, 10}) {
				t.Errorf("routes: %v", routes)
			}
			if output, n := s.submitted(); n != 2 || !slices.Equal(output, []uint32{10}) {
				t.Errorf("%d submissions, the last with %v", n, output)
			}
			if cancelled := len(testkit.Got[*messages.CancelSequence](s.replica)) == 1; cancelled != (other == "m-1") {
				t.Errorf("rerouted to %s: cancelled is %v", other, cancelled)
			}
		})
	}
}

// TestSilenceTimeoutStartsAtLastMessage checks that a replica is abandoned 1.2 s after its last
// message.
func TestSilenceTimeoutStartsAtLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		time.Sleep(390 * time.Millisecond)
		s.emit(0, 10)
		s.stateMu.Lock()
		s.silent = true
		s.stateMu.Unlock()
		for _, want := range []int{1, 2} {
			if n := len(testkit.Got[*messages.RouteSequence](s.router)); n != want {
				t.Errorf("%d route requests, want %d", n, want)
			}
			time.Sleep(1200 * time.Millisecond)
			synctest.Wait()
		}
	})
}

// TestStalledSessionQueriesFirst checks that a session that stalled queries its replica before it
// abandons it.
func TestStalledSessionQueriesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan struct{}, 1)
		turn <- struct{}{}
		s := play(t, always, func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				turn <- <-turn
				next(ctx, env)
			}
		})
		s.emit(0, 10)
		s.stateMu.Lock()
		s.silent = true
		s.stateMu.Unlock()
		<-turn
		time.Sleep(3 * time.Second)
		turn <- struct{}{}
		for i, want := range []int{1, 1, 2} {
			synctest.Wait()
			if n := len(testkit.Got[*messages.RouteSequence](s.router)); n != want {
				t.Errorf("check %d: %d route requests, want %d", i, n, want)
			}
			time.Sleep(700 * time.Millisecond)
		}
	})
}

// TestLostReplicasAreAvoided checks that a session avoids all replicas lost since the last new
// token.
func TestLostReplicasAreAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		lose := func(next string) {
			s.stateMu.Lock()
			s.next = next
			s.stateMu.Unlock()
			s.replica.Send(s.session, &actor.DeadLetterResponse{Target: s.replica.PID})
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		lose("m-1")
		lose("m-2")
		lose("m-2")
		s.emit(0, 10)
		lose("m-0")
		var avoided [][]string
		for _, q := range testkit.Got[*messages.RouteSequence](s.router) {
			avoided = append(avoided, q.GetAvoid())
		}
		if want := [][]string{nil, {"m-0"}, {"m-0", "m-1"}, {"m-0", "m-1", "m-2"},
			{"m-2"}}; !slices.EqualFunc(avoided, want, slices.Equal) {
			t.Errorf("avoided %v, want %v", avoided, want)
		}
	})
}

// TestMessageFromLeftReplicaIsIgnored checks that a session ignores the loss of a replica other
// than the assigned one.
func TestMessageFromLeftReplicaIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, always)
		s.replica.Send(s.session, &actor.DeadLetterResponse{Target: actor.NewPID(s.replica.PID.GetAddress(),
			"another")})
		time.Sleep(time.Second)
		synctest.Wait()
		if _, n := s.submitted(); n != 1 {
			t.Errorf("submitted %d times", n)
		}
	})
}

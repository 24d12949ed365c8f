package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
	"troupe/testkit"
)

// interrupt makes the session request a route again.
func (s *stage) interrupt() {
	s.replica.Send(s.session, &messages.SequenceInterrupted{RequestId: "r", Incarnation: 1,
		Refused: &messages.Refused{
			Reason: messages.Reason_REASON_NOT_READY, RetryAfter: durationpb.New(30 * time.Millisecond),
		}})
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
}

// TestOutputStaysWithRevision checks that a session with output requests replicas with the files
// that computed it, also after a crash, and that one without output accepts any.
func TestOutputStaysWithRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.SequenceMoved", Times: 1}
		s := play(t, always, crash.Middleware)
		asked := func() string {
			routes, submits := testkit.Got[*messages.RouteSequence](s.router),
				testkit.Got[*messages.SubmitSequence](s.replica)
			route, submit := routes[len(routes)-1].GetRevisionDigest(), submits[len(submits)-1].GetRevisionDigest()
			if route != submit {
				t.Errorf("routed with %q, submitted with %q", route, submit)
			}
			return route
		}
		if s.interrupt(); asked() != "" {
			t.Errorf("revision %q requested without output", asked())
		}
		s.emit(0, 10, 11)
		if s.interrupt(); asked() != "one" {
			t.Errorf("revision %q requested with output", asked())
		}
		s.replica.Send(s.session, &messages.SequenceMoved{RequestId: "r"})
		time.Sleep(time.Second)
		if synctest.Wait(); crash.Crashed() != 1 || asked() != "one" {
			t.Errorf("%d crashes, then revision %q requested", crash.Crashed(), asked())
		}
	})
}

// TestReplacedWeightsFailRequest checks that the client gets the refusal if no replica has the
// files any longer.
func TestReplacedWeightsFailRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, func(n int) *messages.Refused {
			if n == 1 {
				return nil
			}
			return &messages.Refused{Reason: messages.Reason_REASON_WEIGHTS_DIFFER, Detail: "replaced"}
		})
		s.emit(0, 10)
		s.interrupt()
		if s.refused.GetReason() != messages.Reason_REASON_WEIGHTS_DIFFER {
			t.Errorf("%v", s.refused)
		}
	})
}

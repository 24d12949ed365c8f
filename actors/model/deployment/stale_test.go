package deployment_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
)

// TestLateRefusalDoesNotFence checks that a leader goes on if a command is refused that the node sent in an
// earlier term, and ends if its own term is over.
func TestLateRefusalDoesNotFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(5)
		refuse := func(current uint64) {
			s.sys.Root.Send(s.pid, &messages.ListReplicasResult{Node: "a", Refused: &messages.Refused{
				Reason: messages.Reason_REASON_STALE_TERM, Term: current}})
		}
		refuse(4)
		s.apply(1)
		s.expectReplicas("a", "m-0")
		refuse(6)
		s.apply(2)
		s.pass(10 * time.Second)
		s.expectReplicas("a", "m-0")
	})
}

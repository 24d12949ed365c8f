package replica_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"troupe/messages"
)

// TestStatusListsFewRequestIDs checks that the status lists the running and incoming requests while
// they are few.
func TestStatusListsFewRequestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSource(t, size{blocks: 80, sequences: 20})
		submit := func(id string) {
			s.session.Send(s.b.PID, &messages.SubmitSequence{RequestId: id, Sequence: greedy(1, 8, 30)})
			synctest.Wait()
		}
		named := func(what string, want ...string) {
			t.Helper()
			if got := s.status(s.b).GetRequests(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		named("at the start")
		submit("q")
		s.send(s.offer("come", 5))
		s.waitFor("the offer's answer", func() bool { _, n := s.lastOffer(); return n == 1 })
		named("one running, one incoming", "come", "q")
		s.send(&messages.AbandonSequence{RequestId: "come", Attempt: 5})
		named("one running", "q")
		for i := range 3 {
			submit(fmt.Sprint(i))
		}
		named("four running", "0", "1", "2", "q")
		submit("3")
		named("five running")
		s.waitFor("their end", func() bool { return s.freeBlocks() == 80 })
		named("at the end")
	})
}

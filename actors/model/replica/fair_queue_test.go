package replica_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// TestFullQueueAdmitsOtherClient checks that a client that fills the queue and the batch loses its
// newest request, and its room in the batch, to another client.
func TestFullQueueAdmitsOtherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: 10 * time.Millisecond}, loaded)
		for i := range 6 {
			greedy := spec(3, 28)
			greedy.Client = "greedy"
			s.submit(fmt.Sprint("greedy", i), greedy)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		other := spec(5, 4)
		other.Client = "other"
		s.submit("other", other)
		lost := testkit.Got[*messages.SequenceInterrupted](s.client)
		if len(lost) != 1 || lost[0].GetRequestId() != "greedy5" ||
			lost[0].GetRefused().GetReason() != messages.Reason_REASON_QUEUE_FULL {
			t.Fatalf("interrupted: %v", lost)
		}
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		s.checkServed("other", 5, 4)
		for i := range 4 {
			if _, done := s.output(fmt.Sprint("greedy", i)); done {
				t.Errorf("greedy%d is done, so the other client may just have waited for its place", i)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range 5 {
			s.checkServed(fmt.Sprint("greedy", i), 3, 28)
		}
	})
}

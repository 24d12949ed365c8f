package replica_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// TestNotFinite: a sequence whose logits are NaN ends with a reason of its own that names the
// model, once; those beside it get all of their tokens, and the replica counts it and gives its
// blocks back.
func TestNotFinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{delay: time.Millisecond,
			nan: func(s engine.Sequence) bool { return s.Position+len(s.Tokens) == 7 && len(s.Tokens) < 4 }}
		s := play(t, c, loaded)
		s.submit("a", spec(9, 10))
		s.submit("bad", spec(5, 10)) // its third token is not one
		s.submit("b", spec(8, 10))
		time.Sleep(time.Second)
		synctest.Wait()
		s.served("a", 9, 10)
		s.served("b", 8, 10)
		if got, done := s.output("bad"); len(got) != 2 || done {
			t.Errorf("its output is %v, finished %v", got, done)
		}
		lost := testkit.Got[*messages.SequenceInterrupted](s.client)
		if len(lost) != 1 || lost[0].GetRequestId() != "bad" ||
			lost[0].GetRefused().GetReason() != messages.Reason_REASON_NUMERIC ||
			!strings.HasPrefix(lost[0].GetRefused().GetDetail(), "model m computed NaN or infinity") {
			t.Errorf("interrupted: %v", lost)
		}
		answer, err := s.root.RequestFuture(s.replica, &messages.GetReplica{}, time.Second).Result()
		status, ok := answer.(*messages.ReplicaStatus)
		if !ok || status.GetSequencesNotFinite() != 1 || !strings.HasPrefix(status.GetNotFinite(),
			"model m at ") || status.GetRunning() != 0 ||
			status.GetKvBlocksFree() != status.GetKvBlocks() {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

package replica_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/core/kv"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// TestNotFiniteEndsSequence checks that a sequence whose logits are NaN ends once, with a reason
// that names the model. The other sequences must get all their tokens. The replica must count the
// sequence and free its blocks.
func TestNotFiniteEndsSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: time.Millisecond,
			nan: func(s engine.Sequence) bool { return s.Position+len(s.Tokens) == 7 && len(s.Tokens) < 4 }}
		s := newHarness(t, c, loaded)
		s.submit("a", spec(9, 10))
		s.submit("bad", spec(5, 10)) // the logits of its third token are NaN
		s.submit("b", spec(8, 10))
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("a", 9, 10)
		s.checkServed("b", 8, 10)
		if got, done := s.output("bad"); len(got) != 2 || done {
			t.Errorf("output %v, finished %v", got, done)
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

// TestNotFiniteBlocksAreNotReused checks that no request reuses blocks of a sequence whose logits
// were NaN, including those of its earlier steps and those that it shared. Other blocks stay.
func TestNotFiniteBlocksAreNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nan := false
		s := newHarness(t, &positionEngine{nan: func(engine.Sequence) bool { return nan }}, loaded)
		cached := func(id string, seq *messages.SequenceSpec) (tokens uint32) {
			s.submit(id, seq)
			for _, m := range testkit.Got[*messages.TokensEmitted](s.client) {
				if m.GetRequestId() == id {
					tokens = m.GetCachedTokens()
				}
			}
			return tokens
		}
		other := spec(20, 1)
		other.CacheSalt = []byte("another tenant")
		cached("other", other)
		cached("prefix", spec(9, 1))
		if got := cached("reader", spec(17, 1)); got != 8 {
			t.Fatalf("%d tokens of a prefix are cached, want 8", got)
		}
		nan = true
		s.submit("bad", spec(60, 2)) // its prefill takes two steps and starts with cached blocks
		if lost := testkit.Got[*messages.SequenceInterrupted](s.client); len(lost) != 1 {
			t.Fatalf("interrupted: %v", lost)
		}
		for _, h := range s.blocks {
			for i, bad := range kv.Hashes(kv.Root("m", "", nil), spec(60, 1).GetPrompt(), 4) {
				if bytes.Equal(h, bad[:]) {
					t.Errorf("the HBM tier has block %d of the sequence", i)
				}
			}
		}
		nan = false
		if got := cached("again", spec(60, 1)); got != 0 {
			t.Errorf("%d tokens were reused", got)
		}
		if got := cached("other again", other); got != 16 {
			t.Errorf("%d tokens of another tenant are cached, want 16", got)
		}
	})
}

package replica_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// TestShrinks: no step runs from the answer until the memory is resized; the answer is repeated.
func TestShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{delay: 10 * time.Millisecond}
		s := play(t, c, loaded)
		s.gpu.Send(s.replica, &messages.ShrinkKV{Lease: "m-0", Blocks: 15, Attempt: 1}) // a sequence of full length takes 16
		synctest.Wait()
		if got := testkit.Got[*messages.KVShrunk](s.gpu); len(got) != 1 || got[0].GetRefused() == nil {
			t.Fatalf("%v", got)
		}
		s.client.Send(s.replica, &messages.SubmitSequence{RequestId: "r", Sequence: &messages.SequenceSpec{
			Model: "m", Prompt: []uint32{1, 2, 3}, Sampling: &messages.SamplingParams{MaxTokens: 40, IgnoreEos: true},
		}})
		time.Sleep(25 * time.Millisecond)
		ask := &messages.ShrinkKV{Lease: "m-0", Blocks: 16, Attempt: 2}
		s.gpu.Send(s.replica, ask)
		time.Sleep(20 * time.Millisecond)
		s.gpu.Send(s.replica, ask)
		synctest.Wait()
		got := testkit.Got[*messages.KVShrunk](s.gpu)
		if len(got) != 3 || got[2].GetAttempt() != 2 || got[2].GetRefused() != nil {
			t.Fatalf("%v", got)
		}
		steps := c.steps
		time.Sleep(100 * time.Millisecond)
		if c.steps != steps {
			t.Error("a step ran while memory shrank")
		}
		s.gpu.Send(s.replica, &messages.GrowKV{Lease: "m-0", Blocks: 16})
		time.Sleep(2 * time.Second)
		var tokens int
		for _, e := range testkit.Got[*messages.TokensEmitted](s.client) {
			tokens += len(e.GetTokens())
		}
		reports := testkit.Got[*messages.KVReport](s.gpu)
		if last := reports[len(reports)-1]; tokens != 40 || last.GetBlocks() != 16 || last.GetLeast() != 16 || len(reports) > 4 {
			t.Errorf("%d tokens, %d reports: %v", tokens, len(reports), last)
		}
	})
}

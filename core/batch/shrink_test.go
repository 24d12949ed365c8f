package batch

import (
	"testing"

	"troupe/core/kv"
)

// TestPreemptBeyond checks that only sequences with blocks beyond the limit are preempted and that
// those blocks become free.
func TestPreemptBeyond(t *testing.T) {
	pool := kv.NewPool(8, 4)
	s := New(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 32}, pool)
	for _, id := range []string{"low", "high"} {
		prompt := make([]uint32, 7) // two blocks; the first sequence gets the first ones
		for i := range prompt {
			prompt[i] = uint32(len(id)*10 + i)
		}
		if _, refused := s.Submit(Request{ID: id, Prompt: prompt, MaxOutput: 4}); refused != nil {
			t.Fatal(refused.Detail)
		}
	}
	s.Plan(now)
	pool.Resize(2)
	if busy, _ := pool.Draining(); busy != 2 {
		t.Fatalf("%d blocks are draining", busy)
	}
	gone := s.PreemptBeyond(2)
	if len(gone) != 1 || gone[0].ID != "high" || s.Running() != 1 {
		t.Errorf("%v preempted, %d run", gone, s.Running())
	}
	if busy, _ := pool.Draining(); busy != 0 {
		t.Errorf("%d blocks are still draining", busy)
	}
}

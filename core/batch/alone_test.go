package batch

import (
	"testing"
	"time"

	"troupe/core/kv"
)

// TestPlanAlone plans a sequence alone while others have all places and all blocks. It preempts one of them only
// for a block, and each continues with its own tokens.
func TestPlanAlone(t *testing.T) {
	for blocks, preempted := range map[int]int{5: 0, 4: 1} {
		s := New(Limits{MaxSequences: 2, StepTokens: 16, ContextTokens: 16}, kv.NewPool(blocks, 4))
		submit := func(id string, tokens int) {
			if _, refused := s.Submit(Request{ID: id, Class: Standard, Arrived: time.Unix(0, 0), Waited: 1,
				Prompt: make([]uint32, tokens), MaxOutput: 9, Client: id}); refused != nil {
				t.Fatal(refused)
			}
		}
		for _, id := range []string{"a", "b"} {
			submit(id, 5)
		}
		step, ok := s.Plan(time.Unix(0, 0))
		if !ok || len(step.Entries) != 2 || s.pool.Free() != blocks-4 {
			t.Fatalf("%d entries, %d of %d blocks free", len(step.Entries), s.pool.Free(), blocks)
		}
		s.Done(step.Entries, []uint32{1, 2})
		submit("alone", 2)
		step, ok = s.PlanAlone("alone")
		if !ok || len(step.Entries) != 1 || step.Entries[0].ID != "alone" || !step.Entries[0].Sample ||
			len(step.Preempted) != preempted {
			t.Fatalf("%d blocks: %v, %+v", blocks, ok, step)
		}
		if all := s.Done(step.Entries, []uint32{3}); len(all) != 1 || all[0].Token != 3 {
			t.Errorf("%d blocks: %v", blocks, all)
		}
		s.Drop("alone")
		step, ok = s.Plan(time.Unix(1, 0))
		if !ok || len(step.Entries) != 2 {
			t.Errorf("%d blocks: afterwards: %v, %+v", blocks, ok, step)
		}
		for _, e := range step.Entries {
			if n := len(e.Tokens); e.ID == "a" && e.Position+n != 6 || e.ID == "b" && e.Position+n != 6 {
				t.Errorf("%d blocks: %+v", blocks, e)
			}
		}
	}
	s := New(Limits{MaxSequences: 2, StepTokens: 8, ContextTokens: 16}, kv.NewPool(4, 4))
	if _, ok := s.PlanAlone("unknown"); ok {
		t.Error("an unknown sequence is planned")
	}
}

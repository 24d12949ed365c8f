package batch

import (
	"testing"

	"troupe/core/kv"
)

// displaced runs a sequence for some steps, has it give way to another one, and plans until it comes back. In between, what the pool holds can be changed.
func displaced(t *testing.T, prompt, steps int, between func(*harness)) (back Entry, computed int) {
	t.Helper()
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 10, StepTokens: 6, ContextTokens: 64}, 16)
	h.submit(request("low", Batch, prompt, 30))
	for range steps {
		h.step(t)
	}
	h.submit(request("high", Interactive, 5, 2))
	for s, _ := h.State("low"); s != Preempted; s, _ = h.State("low") {
		computed = h.byID["low"].computed
		h.step(t)
	}
	if between != nil {
		between(h)
	}
	for h.finished["high"] == None {
		h.step(t)
	}
	plan, ok := h.Plan(now)
	if !ok || plan.Entries[0].ID != "low" {
		t.Fatalf("%v", ids(plan))
	}
	return plan.Entries[0], computed
}

// TestParkedSequenceComputesNothingAgain: wherever it was when it gave way, it goes on from there; also where others read the full blocks meanwhile.
func TestParkedSequenceComputesNothingAgain(t *testing.T) {
	for prompt := 1; prompt <= 12; prompt++ {
		for steps := 1; steps <= 9; steps++ {
			if e, computed := displaced(t, prompt, steps, nil); e.Position != computed || computed == 0 {
				t.Errorf("prompt of %d, %d steps: it goes on at %d, not %d", prompt, steps, e.Position, computed)
			}
		}
	}
}

// TestPartialBlockIsOnesOwn: a partial block that somebody else reads is not written to, and what is lost is computed again.
func TestPartialBlockIsOnesOwn(t *testing.T) {
	held := func(h *harness) {
		if found := h.pool.Acquire([]kv.Hash{h.byID["low"].partial(blockTokens)}); len(found) != 1 {
			t.Fatalf("the partial block is not to be found: %v", found)
		}
	}
	if e, _ := displaced(t, 3, 1, held); e.Position != 0 {
		t.Errorf("it goes on at %d in a block that another reads", e.Position)
	}
	lost := func(h *harness) { h.pool.Flush() }
	if e, _ := displaced(t, 7, 4, lost); e.Position != 0 {
		t.Errorf("it goes on at %d after blocks that are lost", e.Position)
	}
}

package batch

import (
	"testing"

	"troupe/core/kv"
)

// preemptAndResume runs a sequence for some steps, preempts it for another one and plans until it
// returns. between may change the pool meanwhile.
func preemptAndResume(t *testing.T, prompt, steps int, between func(*harness)) (back Entry, computed int) {
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

// TestPreemptedSequenceResumesWhereItStopped checks that a preempted sequence recomputes nothing,
// wherever it stopped and even if others read its full blocks meanwhile.
func TestPreemptedSequenceResumesWhereItStopped(t *testing.T) {
	for prompt := 1; prompt <= 12; prompt++ {
		for steps := 1; steps <= 9; steps++ {
			if e, computed := preemptAndResume(t, prompt, steps, nil); e.Position != computed || computed == 0 {
				t.Errorf("prompt of %d, %d steps: resumed at position %d, want %d", prompt, steps, e.Position, computed)
			}
		}
	}
}

// TestSharedPartialBlockIsNotWritten checks that a partial block with another reader is not written
// to, and that lost blocks are recomputed.
func TestSharedPartialBlockIsNotWritten(t *testing.T) {
	held := func(h *harness) {
		if found := h.pool.Acquire([]kv.Hash{h.byID["low"].partial(blockTokens)}); len(found) != 1 {
			t.Fatalf("the partial block was not found: %v", found)
		}
	}
	if e, _ := preemptAndResume(t, 3, 1, held); e.Position != 0 {
		t.Errorf("resumed at position %d in a block with another reader", e.Position)
	}
	lost := func(h *harness) { h.pool.Flush() }
	if e, _ := preemptAndResume(t, 7, 4, lost); e.Position != 0 {
		t.Errorf("resumed at position %d after lost blocks", e.Position)
	}
}

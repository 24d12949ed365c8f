package batch

import (
	"testing"
	"time"

	"troupe/core/kv"
)

// TestDemand checks the class and the prefill that the next step is expected to have.
func TestDemand(t *testing.T) {
	s := New(Limits{MaxSequences: 2, MaxWaiting: 2, StepTokens: 8, ContextTokens: 32}, kv.NewPool(16, 4))
	if d := s.Demand(); d != (Demand{}) {
		t.Errorf("%+v without sequences", d)
	}
	s.Submit(Request{ID: "a", Class: Batch, Prompt: []uint32{1, 2}, MaxOutput: 4})
	if d := s.Demand(); d != (Demand{Class: Batch, Prefill: true}) {
		t.Errorf("%+v for a waiting sequence", d)
	}
	step, _ := s.Plan(time.Unix(1, 0))
	s.Done(step.Entries, []uint32{3})
	if d := s.Demand(); d != (Demand{Class: Batch}) {
		t.Errorf("%+v for a sequence that decodes", d)
	}
	if r, output, ok := s.Request("a"); !ok || r.MaxOutput != 4 || output != 1 {
		t.Errorf("%+v with %d tokens", r, output)
	}
	s.Submit(Request{ID: "b", Class: Interactive, Prompt: []uint32{1}, MaxOutput: 1})
	if d := s.Demand(); d != (Demand{Class: Interactive, Prefill: true}) {
		t.Errorf("%+v for two sequences", d)
	}
	if _, _, ok := s.Request("c"); ok {
		t.Error("an unknown sequence is known")
	}
}

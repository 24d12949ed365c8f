package batch

import (
	"slices"
	"testing"
	"time"

	"troupe/core/kv"
)

// TestWaited checks that a request that has waited elsewhere is served before younger requests of
// its class, and is accepted by a full queue.
func TestWaited(t *testing.T) {
	s := New(Limits{MaxSequences: 1, MaxWaiting: 4, StepTokens: 8, ContextTokens: 16}, kv.NewPool(16, blockTokens))
	at := time.Unix(1000, 0)
	submit := func(id string, class Class, arrived, waited time.Duration) *Refusal {
		_, why := s.Submit(Request{ID: id, Class: class, Arrived: at.Add(arrived), Waited: waited, Prompt: []uint32{1},
			MaxOutput: 1})
		return why
	}
	for _, r := range []struct {
		id      string
		class   Class
		arrived time.Duration
		waited  time.Duration
	}{
		{"third", Standard, 1 * time.Second, 0},
		{"first", Interactive, 2 * time.Second, 0},
		{"fourth", Standard, 3 * time.Second, 1 * time.Second},
		{"second", Standard, 4 * time.Second, 4 * time.Second},
		{"fifth", Standard, 5 * time.Second, 0},
	} {
		if why := submit(r.id, r.class, r.arrived, r.waited); why != nil {
			t.Fatalf("%s: %s", r.id, why.Detail)
		}
	}
	if why := submit("new", Standard, 6*time.Second, 0); why == nil || why.Reason != QueueFull {
		t.Errorf("a new request in a full queue: %v, want queue full", why)
	}
	if why := submit("requeued", Standard, 7*time.Second, time.Millisecond); why != nil {
		t.Errorf("a request that has waited was refused: %s", why.Detail)
	}
	var order []string
	for len(s.byID) > 0 {
		plan, ok := s.Plan(at)
		if !ok {
			t.Fatal("nothing to plan")
		}
		order = append(order, plan.Entries[0].ID)
		s.Done(plan.Entries, []uint32{7})
	}
	if want := []string{"first", "second", "third", "fourth", "fifth", "requeued"}; !slices.Equal(order, want) {
		t.Errorf("served in order %v, want %v", order, want)
	}
}

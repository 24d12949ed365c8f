package stored

import (
	"context"
	"testing"

	"troupe/messages"
)

// pauses is a store that delivers some pauses.
type pauses []*messages.PlannerPause

func (p pauses) WatchPlannerPause(_ context.Context, apply func(*messages.PlannerPause)) error {
	for _, pause := range p {
		apply(pause)
	}
	return nil
}

// TestPlannerPause checks that the last pause counts, and that the watch is synced once it is known.
func TestPlannerPause(t *testing.T) {
	var p PlannerPause
	if p.Get().GetPaused() {
		t.Error("paused without a store")
	}
	synced := 0
	from := pauses{{}, {Paused: true, By: "ops"}}
	if err := p.Watch(from).Run(t.Context(), func() { synced++ }); err != nil || synced == 0 {
		t.Errorf("%v, synced %d times", err, synced)
	}
	if pause := p.Get(); !pause.GetPaused() || pause.GetBy() != "ops" {
		t.Errorf("%v", pause)
	}
}

package store

import (
	"context"
	"testing"

	"troupe/messages"
)

// TestPlannerPause checks that a pause is stored, read and delivered to watches, and that the planner is not
// paused if nothing is stored.
func TestPlannerPause(t *testing.T) {
	s, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan *messages.PlannerPause, 9), make(chan error, 1)
	go func() {
		ended <- s.WatchPlannerPause(ctx, func(pause *messages.PlannerPause) { heard <- pause })
	}()
	next := func(paused bool, why string) {
		t.Helper()
		if got := <-heard; got.GetPaused() != paused || got.GetWhy() != why {
			t.Errorf("watched %v", got)
		}
		if got, err := s.PlannerPause(t.Context()); err != nil || got.GetPaused() != paused || got.GetWhy() != why {
			t.Errorf("read %v, %v", got, err)
		}
	}
	next(false, "")
	for _, pause := range []*messages.PlannerPause{{Paused: true, By: "ops", Why: "upgrade"}, {By: "ops"}} {
		if err := s.PutPlannerPause(t.Context(), pause); err != nil {
			t.Fatal(err)
		}
		next(pause.GetPaused(), pause.GetWhy())
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the watch ended without an error")
	}
}

package stored

import (
	"context"
	"sync/atomic"

	"troupe/messages"
)

// PlannerPause is whether an operator has paused the planner. It is safe for concurrent use.
type PlannerPause struct {
	last atomic.Pointer[messages.PlannerPause]
}

// Get returns what is stored; nil: nothing.
func (p *PlannerPause) Get() *messages.PlannerPause { return p.last.Load() }

// PauseStore is the part of the store that has whether the planner is paused.
type PauseStore interface {
	WatchPlannerPause(ctx context.Context, apply func(*messages.PlannerPause)) error
}

// Watch returns a watch that follows what is stored.
func (p *PlannerPause) Watch(from PauseStore) Watch {
	return Watch{Of: "the planner's pause", Run: func(ctx context.Context, synced func()) error {
		return from.WatchPlannerPause(ctx, func(pause *messages.PlannerPause) {
			p.last.Store(pause)
			synced()
		})
	}}
}

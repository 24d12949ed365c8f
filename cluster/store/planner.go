package store

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
)

const (
	settings   = "settings."
	plannerKey = settings + "planner"
)

// PutPlannerPause stores whether the planner is paused.
func (s *Store) PutPlannerPause(ctx context.Context, pause *messages.PlannerPause) error {
	return s.put(ctx, plannerKey, pause)
}

// PlannerPause returns the stored pause of the planner, or an empty one (not paused) if none is stored.
func (s *Store) PlannerPause(ctx context.Context) (*messages.PlannerPause, error) {
	e, err := s.kv.Get(ctx, plannerKey)
	if isMissing(err) {
		return &messages.PlannerPause{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pause of the planner: %w", err)
	}
	pause := &messages.PlannerPause{}
	return pause, decodeEntry(e, pause)
}

// WatchPlannerPause calls apply with what is stored, and with each change. If nothing is stored, the planner
// is not paused. It returns when ctx ends or the store is lost.
func (s *Store) WatchPlannerPause(ctx context.Context, apply func(*messages.PlannerPause)) error {
	found := false
	return s.watch(ctx, settings, func(e jetstream.KeyValueEntry) {
		pause := &messages.PlannerPause{}
		switch {
		case e == nil && found, e != nil && e.Key() != plannerKey:
			return
		case e != nil && e.Operation() == jetstream.KeyValuePut:
			found = true
			if err := decodeEntry(e, pause); err != nil {
				s.log.Error().Err(err).Msg("stored pause of the planner skipped")
				return
			}
		}
		apply(pause)
	})
}

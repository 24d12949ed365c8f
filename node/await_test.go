package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
)

// TestAwaitRoutes checks that a starting node waits for the routes of the other nodes, but not
// forever, and not after its start is cancelled.
func TestAwaitRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		told, stopped time.Duration
		takes         time.Duration
		want          error
	}{
		"told":      {told: 300 * time.Millisecond, stopped: time.Hour, takes: 300 * time.Millisecond},
		"never":     {told: time.Hour, stopped: time.Hour, takes: routesTimeout},
		"cancelled": {told: time.Hour, stopped: time.Second, takes: time.Second, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSignals()
				defer time.AfterFunc(c.told, once(s.routesKnown)).Stop()
				ctx, cancel := context.WithTimeout(t.Context(), c.stopped)
				defer cancel()
				began := time.Now()
				err := s.awaitRoutes(ctx, supervise.System, zerolog.Nop())
				if !errors.Is(err, c.want) || time.Since(began) != c.takes {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				<-s.informed
			})
		})
	}
}

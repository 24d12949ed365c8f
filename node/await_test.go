package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// TestAwaitRoutes checks that a starting node waits for the routes of the others, but not forever,
// and not after its start is cancelled.
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
				n := &Node{
					cfg:         Config{Log: zerolog.Nop()},
					routesKnown: make(chan struct{}),
					informed:    make(chan struct{}),
				}
				defer time.AfterFunc(c.told, func() { close(n.routesKnown) }).Stop()
				ctx, cancel := context.WithTimeout(t.Context(), c.stopped)
				defer cancel()
				began := time.Now()
				if err := n.awaitRoutes(ctx); !errors.Is(err, c.want) || time.Since(began) != c.takes {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				<-n.informed
			})
		})
	}
}

// TestStartWatches checks that startWatches returns when all watches have read the stored state.
func TestStartWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		defer end()
		var n Node
		known := 0
		watch := func(life context.Context, synced func()) {
			for life.Err() == nil { // synced is called after each reconnect
				time.Sleep(time.Second)
				known++
				synced()
				time.Sleep(time.Hour)
			}
		}
		if err := n.startWatches(t.Context(), life, watch, watch); err != nil || known != 2 {
			t.Errorf("%v, with %d of 2 known", err, known)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := n.startWatches(soon, life, watch); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a store that does not answer: %v", err)
		}
		end()
		time.Sleep(3 * time.Hour)
	})
}

package stored

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/node/steps"
)

// rewatchDelay is the delay before a broken watch of the store is opened again.
const rewatchDelay = time.Second

// Watch follows a part of the stored state.
type Watch struct {
	Of string // name of that part, for the log
	// Run follows the part until ctx ends or the store is lost. It calls synced once it has applied
	// the stored state, and again after each reconnect.
	Run func(ctx context.Context, synced func()) error
}

// Followers are running watches.
type Followers struct {
	rt    supervise.Runtime
	log   zerolog.Logger
	stops []func()
}

// NewFollowers returns a Followers without watches.
func NewFollowers(rt supervise.Runtime, log zerolog.Logger) *Followers {
	return &Followers{rt: rt, log: log}
}

// Follow starts watches and waits until each of them has applied the stored state. ctx bounds the
// wait. If Follow fails, no watch is running.
func (f *Followers) Follow(ctx context.Context, all ...Watch) error {
	for _, w := range all {
		synced := make(chan struct{})
		f.Start(w, sync.OnceFunc(func() { close(synced) }))
		select {
		case <-synced:
		case <-ctx.Done():
			f.Stop()
			return fmt.Errorf("reading nodes, pins and the cluster secret from the store: %w", ctx.Err())
		}
	}
	return nil
}

// Start starts a watch that calls synced.
func (f *Followers) Start(w Watch, synced func()) {
	f.stops = append(f.stops, steps.Background(f.rt, func(ctx context.Context) {
		for ctx.Err() == nil {
			err := w.Run(ctx, synced)
			select {
			case <-ctx.Done():
			case <-f.rt.After(rewatchDelay):
				f.log.Warn().Err(err).Msg("store lost; watching " + w.Of + " again")
			}
		}
	}))
}

// Stop ends all watches.
func (f *Followers) Stop() {
	for _, stop := range slices.Backward(f.stops) {
		stop()
	}
	f.stops = nil
}

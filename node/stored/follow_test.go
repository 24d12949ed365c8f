package stored

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
)

// TestFollow checks that Follow returns when all watches have read the stored state, that a broken
// watch is opened again, and that no watch runs after a failure.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFollowers(supervise.System, zerolog.Nop())
		var known atomic.Int32
		watch := Watch{Of: "hours", Run: func(ctx context.Context, synced func()) error {
			time.Sleep(time.Second)
			known.Add(1)
			synced() // after each reconnect
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return errors.New("lost")
		}}
		if err := f.Follow(t.Context(), watch, watch); err != nil || known.Load() != 2 {
			t.Errorf("%v, with %d of 2 known", err, known.Load())
		}
		if time.Sleep(time.Hour + time.Minute); known.Load() != 4 {
			t.Errorf("known %d times, want 4", known.Load())
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := f.Follow(soon, watch); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a store that does not answer: %v", err)
		}
		before := known.Load()
		if time.Sleep(3 * time.Hour); known.Load() != before {
			t.Error("watches run after a failed start")
		}
	})
}

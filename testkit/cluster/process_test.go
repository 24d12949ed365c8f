package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntilReturnsLastRealError checks that Until returns the error of the last attempt that ctx
// did not cut off.
func TestUntilReturnsLastRealError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wrong, tries := errors.New("a sequence is left"), 0
		err := Until(ctx, func() error {
			if tries++; tries == 1 {
				return wrong
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, wrong) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

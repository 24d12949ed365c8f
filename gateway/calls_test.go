package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"troupe/gateway"
)

// TestCallsOfOneRequest: of 128 choices some are open at a time, and all are served.
func TestCallsOfOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		w := newWorld(t, func(ctx context.Context, call *gateway.Call) {
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer open.Add(-1)
			says(" a b", stop)(ctx, call)
		})
		rec := w.ask("/v1/completions", `{"model":"kjv","prompt":"a","n":128}`)
		if rec.Code != 200 || len(read(t, rec)[0].Choices) != 128 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if n := most.Load(); n > 34 || n < 16 { // a session may end a moment after its call
			t.Errorf("%d calls were open at once", n)
		}
	})
}

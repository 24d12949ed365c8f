package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"troupe/gateway"
)

// TestOpenCallsPerRequestAreBounded checks that only some of 128 choices are open at once, and that
// all complete.
func TestOpenCallsPerRequestAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer open.Add(-1)
			generate(" a b", finishStop)(ctx, call)
		})
		rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a","n":128}`)
		if rec.Code != 200 || len(readResponses(t, rec)[0].Choices) != 128 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if n := most.Load(); n > 34 || n < 16 { // a session may end shortly after its call
			t.Errorf("%d calls were open at once", n)
		}
	})
}

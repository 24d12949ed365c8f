package gateway_test

import (
	"context"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"troupe/core/demand"
	"troupe/gateway"
	"troupe/messages"
)

// TestDemandIsReported checks what the router learns of requests: arrivals, refusals, TTFT, TPOT and the
// lengths, also after a crash of the gateway actor, until a window later.
func TestDemandIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := false
		w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
			if refuse {
				call.Fail(&messages.Refused{Reason: messages.Reason_REASON_QUEUE_FULL, Detail: "full"})
				return
			}
			generate("God did.", finishLength)(ctx, call)
		})
		for range 3 {
			if rec := w.post("/v1/completions", shortRequest); rec.Code != http.StatusOK {
				t.Fatal(rec.Body)
			}
		}
		refuse = true
		w.post("/v1/completions", shortRequest)
		w.sys.Root.Send(w.actor, &messages.OpenSession{RequestId: crashRequestID})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := w.lastDemand()
		if len(got.GetModels()) != 1 {
			t.Fatalf("%v", got)
		}
		m := got.GetModels()[0]
		if m.GetModel() != "kjv" || m.GetArrivals() != 4 || m.GetFinished() != 3 || m.GetRefused() != 1 {
			t.Errorf("%v", m)
		}
		prompt := float64(len(testTokenizer().Encode("a", true)))
		tokens := float64(len(testTokenizer().Encode("God did.", false)))
		for name, want := range map[string]struct {
			sketch []byte
			median float64
		}{
			"ttft": {m.GetTtft(), tokenInterval.Seconds()}, "tpot": {m.GetTpot(), tokenInterval.Seconds()},
			"prompt": {m.GetPromptTokens(), prompt}, "output": {m.GetOutputTokens(), tokens},
		} {
			s, err := demand.Decode(want.sketch)
			median, known := s.Quantile(0.5)
			if err != nil || !known || s.Count() != 3 || math.Abs(median-want.median) > demand.Accuracy*want.median {
				t.Errorf("%s: %d values, median %v (%v), want %v", name, s.Count(), median, err, want.median)
			}
		}
		time.Sleep(demand.Length + demand.SlotLength)
		synctest.Wait()
		if got := w.lastDemand(); len(got.GetModels()) != 0 || got.GetObserved().AsDuration() != demand.Length {
			t.Errorf("a window later: %v", got)
		}
	})
}

func (w *testGateway) lastDemand() *messages.DemandReported {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.demand
}

package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/engine"
	"troupe/gateway"
)

// TestRefusedLog: requests without a key are counted, and few of them are logged.
func TestRefusedLog(t *testing.T) {
	log := &bytes.Buffer{}
	w := locked(t, log)
	const flood = 5000
	for range flood {
		if rec := w.ask("/v1/completions", "{}", "Authorization", "Bearer sk-wrong"); rec.Code != 401 {
			t.Fatal(rec.Code)
		}
	}
	if n := strings.Count(log.String(), `"status":401`); n < 5 || n > 100 {
		t.Errorf("%d lines for %d requests", n, flood)
	}
	if got := w.metric(`troupe_gateway_requests_total{endpoint="unauthorized",model="",status="401"}`); got != fmt.Sprint(
		flood,
	) {
		t.Errorf("%s are counted, not %d", got, flood)
	}
}

// TestPanicLog: what a request makes the gateway panic with is not in the log, nor in the answer.
// It may hold the prompt.
func TestPanicLog(t *testing.T) {
	const prompt = "PROMPT-OF-A-CLIENT"
	for _, value := range []any{prompt, errors.New(prompt), fmt.Errorf("tokens of %q", prompt), []string{prompt}} {
		log := &bytes.Buffer{}
		w := newWorld(t, byTurns("God did."), func(cfg *gateway.Config) {
			cfg.Log, cfg.Inspect = zerolog.New(log), func(string) (engine.ModelInfo, error) { panic(value) }
		})
		rec := w.ask("/v1/completions", `{"model":"kjv","prompt":"`+prompt+`"}`)
		if rec.Code != 500 || strings.Contains(rec.Body.String(), prompt) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if !strings.Contains(log.String(), "request failed in the gateway") || strings.Contains(log.String(), prompt) {
			t.Errorf("%s", log)
		}
	}
}

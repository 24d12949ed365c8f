package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/core/backend"
	"troupe/engine"
	"troupe/gateway"
)

// TestUnauthorizedLogIsLimited checks that requests without a valid key are all counted, but few
// are logged.
func TestUnauthorizedLogIsLimited(t *testing.T) {
	log := &bytes.Buffer{}
	w := newKeyedGateway(t, log)
	const flood = 5000
	for range flood {
		if rec := w.post("/v1/completions", "{}", "Authorization", "Bearer sk-wrong"); rec.Code != 401 {
			t.Fatal(rec.Code)
		}
	}
	if n := strings.Count(log.String(), `"status":401`); n < 5 || n > 100 {
		t.Errorf("%d lines for %d requests", n, flood)
	}
	got := w.metric(`troupe_gateway_requests_total{endpoint="unauthorized",model="",status="401"}`)
	if got != fmt.Sprint(flood) {
		t.Errorf("%s requests are counted, want %d", got, flood)
	}
}

// TestPanicValueNotLogged checks that neither the log nor the response contains the value of a
// panic, which may contain the prompt.
func TestPanicValueNotLogged(t *testing.T) {
	const prompt = "PROMPT-OF-A-CLIENT"
	for _, value := range []any{prompt, errors.New(prompt), fmt.Errorf("tokens of %q", prompt), []string{prompt}} {
		log := &bytes.Buffer{}
		w := newTestGateway(t, generateAtOnce("God did.", finishStop), func(cfg *gateway.Config) {
			cfg.Log = zerolog.New(log)
			cfg.Inspect = func(backend.Kind, string) (engine.ModelInfo, error) { panic(value) }
		})
		rec := w.post("/v1/completions", `{"model":"kjv","prompt":"`+prompt+`"}`)
		if rec.Code != 500 || strings.Contains(rec.Body.String(), prompt) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if !strings.Contains(log.String(), "request panicked in the gateway") ||
			strings.Contains(log.String(), prompt) {
			t.Errorf("%s", log)
		}
	}
}

package gateway

import (
	"net/http"

	"troupe/gateway/openai"
)

// account ends a request: it closes the open calls, counts the tokens used, returns the
// reservations, and records the response. e is nil if the request was served.
func (g *Gateway) account(gen *generation, e *openai.Error) {
	g.recordFailure(gen, e)
	for _, c := range gen.choices {
		g.endCall(c)
	}
	if !gen.finished.IsZero() {
		gen.metrics.generationFinished(gen)
	}
	if gen.admitted {
		g.cfg.Quotas.leave(gen.client, gen.reserved, gen.charged())
		g.metrics.inFlight.Dec()
	}
	gen.memory.shrink(0)
	status := http.StatusOK
	if e != nil {
		status = e.Status
	}
	g.recordResponse(gen.info, status)
}

// charged returns the tokens that count against the client's limits. A generation that never
// started has used none.
func (gen *generation) charged() openai.Usage {
	if !gen.started() {
		return openai.Usage{}
	}
	return gen.usage()
}

// started reports whether any tokens of a generation were delivered.
func (gen *generation) started() bool {
	for _, c := range gen.choices {
		if c.started {
			return true
		}
	}
	return false
}

// usage counts tokens: each prompt once, and all generated tokens including the one that ended an
// output.
func (gen *generation) usage() openai.Usage {
	var u openai.Usage
	for i, c := range gen.choices {
		if i%gen.req.N == 0 {
			u.Prompt += len(c.prompt)
			u.Cached += c.cached
		}
		u.Completion += c.decoded + c.endTokens
	}
	return u
}

// Limits of log lines about requests without a valid key. The metrics count all of them.
const (
	refusalLogRate  = 2 // per second
	refusalLogBurst = 10
)

// recordResponse counts and logs a response. Requests with a key are logged at level info, so that
// operators see the use of each key.
func (g *Gateway) recordResponse(info requestInfo, status int) {
	g.metrics.countResponse(info, status)
	g.audit(info, status)
	line := g.cfg.Log.Debug()
	if info.key != nil {
		line = g.cfg.Log.Info()
	} else if status == http.StatusUnauthorized {
		ok, leftOut := g.refusals.Allow()
		if !ok {
			return
		}
		line = g.cfg.Log.Info().Uint64("left_out", leftOut)
	}
	if info.key != nil {
		line.Str("key", info.key.Name)
	}
	if info.account != "" {
		line.Str("account", info.account)
	}
	if info.adapter != "" {
		line.Str("adapter", info.adapter)
	}
	line.Str("endpoint", info.endpoint).
		Str("model", info.model).
		Int("status", status).
		Str("request", info.id).
		Str("remote", info.remote).
		Msg("answered")
}

package gateway

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"troupe/gateway/openai"
	"troupe/messages"
)

// MetricsHandler returns the handler of a listener for scrapers. It serves /metrics, /live, /health
// and /ready. If open, /metrics needs no key.
func (g *Gateway) MetricsHandler(open bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /live", g)
	mux.Handle("GET /health", g)
	mux.Handle("GET /ready", g)
	metrics := http.Handler(g)
	if open {
		metrics = promhttp.HandlerFor(g.cfg.Registry, promhttp.HandlerOpts{})
	}
	mux.Handle("GET /metrics", metrics)
	return mux
}

// BusyHandler returns the handler for connections beyond the limit. It refuses every request with
// status 503.
func (g *Gateway) BusyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := openai.Refusal(messages.Reason_REASON_QUEUE_FULL,
			"too many open connections; close some, or try again in a moment")
		e.Status, e.RetryAfter = http.StatusServiceUnavailable, time.Second
		c := caller{id: setRequestID(g.cfg.Runtime, w, r), remote: r.RemoteAddr}
		g.respondError(w, requestInfo{caller: c, endpoint: "refused"}, e)
	})
}

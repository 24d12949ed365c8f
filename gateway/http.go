package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"troupe/actors/supervise"
	"troupe/gateway/openai"
	"troupe/gateway/web"
	"troupe/messages"
)

const maxID = 128 // characters of X-Request-Id

func (g *Gateway) routes() {
	g.mux.HandleFunc("GET /v1/models", g.listModels)
	g.mux.HandleFunc("GET /v1/models/{model...}", g.getModel)
	g.mux.HandleFunc("POST /v1/completions",
		func(w http.ResponseWriter, r *http.Request) { g.serveCompletion(w, r, false) })
	g.mux.HandleFunc("POST /v1/chat/completions",
		func(w http.ResponseWriter, r *http.Request) { g.serveCompletion(w, r, true) })
	g.mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		g.respondError(w, newRequestInfo(r, "embeddings"), openai.Refusal(messages.Reason_REASON_UNSUPPORTED,
			"embeddings are not supported: the models here generate text; use /v1/completions or /v1/chat/completions"))
	})
	g.mux.HandleFunc("POST /v1/load_lora_adapter", g.loadAdapter)
	g.mux.HandleFunc("POST /v1/unload_lora_adapter", g.unloadAdapter)
	for _, path := range []string{"/live", "/health"} {
		g.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			g.respondJSON(w, newRequestInfo(r, path[1:]), http.StatusOK, map[string]string{"status": "ok"})
		})
	}
	g.mux.HandleFunc("GET /ready", g.ready)
	g.mux.HandleFunc("GET /{$}", g.frontPage)
	g.mux.HandleFunc("GET /docs/{$}", g.docsIndex)
	g.mux.HandleFunc("GET /docs/{page...}", g.docsPage)
	g.mux.Handle("GET /metrics", promhttp.HandlerFor(g.cfg.Registry, promhttp.HandlerOpts{}))
	for path, handler := range g.cfg.Routes {
		g.mux.Handle("GET "+path, handler)
	}
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setRequestID(g.cfg.Runtime, w, r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	g.handler.ServeHTTP(w, r)
}

// setRequestID returns the request's X-Request-Id, or a random ID if it is missing or invalid, and
// sets it on the response.
func setRequestID(rt supervise.Runtime, w http.ResponseWriter, r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if !isValidRequestID(id) {
		id = newID(rt)
	}
	w.Header().Set("X-Request-Id", id)
	return id
}

// route authenticates the client and calls the route's handler. Errors, including unknown routes,
// are returned in OpenAI's form. The body is read only after these checks.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request) {
	c := caller{
		id:      w.Header().Get("X-Request-Id"),
		remote:  r.RemoteAddr,
		address: clientAddress(r, g.cfg.TrustedProxies),
		started: g.cfg.Runtime.Now(),
	}
	if g.origin.Check(r) != nil {
		info := requestInfo{caller: c, endpoint: "refused", object: r.Method + " " + r.URL.Path}
		g.respondError(w, info, crossOriginError(r))
		return
	}
	_, pattern := g.mux.Handler(r)
	if pattern == "" {
		g.respondError(w, requestInfo{caller: c, endpoint: "none"}, g.routeError(w, r))
		return
	}
	if strings.Contains(pattern, " /v1/") {
		if !g.enterGate(w, r, c) {
			return
		}
		defer g.gate.leave()
	}
	if g.cfg.Keys != nil {
		if key, ok := g.cfg.Keys.Find(presentedKey(r)); ok {
			c.key = &key
			g.setRateLimitHeaders(w.Header(), c)
			ctx, release := g.keyed.add(r.Context(), key, w)
			defer release()
			r = r.WithContext(ctx)
		} else if !publicRoutes[pattern] {
			web.CloseAfter(w, r)
			info := requestInfo{caller: c, endpoint: "unauthorized", object: r.Method + " " + r.URL.Path}
			g.respondError(w, info, unauthorized(w, r))
			return
		}
	}
	if !c.isAdmin(g.cfg.Keys != nil) &&
		(adminRoutes[pattern] || g.cfg.Routes[strings.TrimPrefix(pattern, "GET ")] != nil) {
		info := requestInfo{caller: c, endpoint: "forbidden", object: r.Method + " " + r.URL.Path}
		g.respondError(w, info, adminRequired())
		return
	}
	g.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

func isValidRequestID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

func (g *Gateway) routeError(w http.ResponseWriter, r *http.Request) *openai.Error {
	e := openai.Invalid("",
		fmt.Sprintf("no route for %s %s; see /v1/models, /v1/completions, /v1/chat/completions", r.Method, r.URL.Path))
	e.Status = http.StatusNotFound
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := g.mux.Handler(other); pattern != "" {
			w.Header().Set("Allow", method)
			e.Status = http.StatusMethodNotAllowed
			e.Message = fmt.Sprintf("%s accepts %s, not %s", r.URL.Path, method, r.Method)
		}
	}
	return e
}

// respondError records and writes an error.
func (g *Gateway) respondError(w http.ResponseWriter, info requestInfo, e *openai.Error) {
	g.recordResponse(info, e.Status)
	writeError(w, e)
}

func writeError(w http.ResponseWriter, e *openai.Error) {
	if after := retryAfter(e); after != "" {
		w.Header().Set("Retry-After", after)
	}
	writeJSONBody(w, e.Status, e.JSON())
}

// setWriteDeadline cuts off a client that does not read the response. Writers that support no
// deadline, such as those of tests, have no connection to cut.
func (g *Gateway) setWriteDeadline(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(g.cfg.Runtime.Now().Add(within))
}

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"troupe/gateway/openai"
	"troupe/messages"
)

// maxBody is the largest request.
const maxBody = 16 << 20

func (g *Gateway) routes() {
	g.mux.HandleFunc("GET /v1/models", g.listModels)
	g.mux.HandleFunc("GET /v1/models/{model...}", g.getModel)
	g.mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { g.complete(w, r, false) })
	g.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { g.complete(w, r, true) })
	g.mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		g.fail(w, "embeddings", openai.Refusal(messages.Reason_REASON_UNSUPPORTED,
			"embeddings are not supported: the models here generate text; use /v1/completions or /v1/chat/completions"))
	})
	g.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	g.mux.HandleFunc("GET /ready", g.ready)
	g.mux.Handle("GET /metrics", promhttp.HandlerFor(g.cfg.Registry, promhttp.HandlerOpts{}))
	for path, handler := range g.cfg.Routes {
		g.mux.Handle("GET "+path, handler)
	}
}

// ServeHTTP implements http.Handler. What no route takes is answered in OpenAI's shape too.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 || strings.ContainsAny(id, "\r\n") {
		id = newID()
	}
	w.Header().Set("X-Request-Id", id)
	if _, pattern := g.mux.Handler(r); pattern == "" {
		e := openai.Refusal(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("%s %s is not here; see /v1/models, /v1/completions, /v1/chat/completions", r.Method, r.URL.Path))
		e.Code = nil
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := g.mux.Handler(other); pattern != "" {
				w.Header().Set("Allow", method)
				e.Status, e.Message = http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, not %s", r.URL.Path, method, r.Method)
			}
		}
		g.fail(w, "none", e)
		return
	}
	g.mux.ServeHTTP(w, r)
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, openai.Refusal(messages.Reason_REASON_INTERNAL, err.Error()).JSON()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may have left
}

func (g *Gateway) fail(w http.ResponseWriter, endpoint string, e *openai.Error) {
	if e.RetryAfter > 0 || e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(e.RetryAfter, time.Second).Seconds()))))
	}
	g.metrics.answered(endpoint, e.Status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(e.JSON(), '\n')) // the client may have left
}

func (g *Gateway) complete(w http.ResponseWriter, r *http.Request, isChat bool) {
	endpoint := "completions"
	if isChat {
		endpoint = "chat_completions"
	}
	if g.inFlight.Add(1) > int64(g.cfg.MaxInFlight) {
		g.inFlight.Add(-1)
		g.fail(w, endpoint, busy())
		return
	}
	g.metrics.inFlight.Inc()
	defer func() { g.inFlight.Add(-1); g.metrics.inFlight.Dec() }()
	req, err := readRequest(w, r, isChat)
	if err != nil {
		g.fail(w, endpoint, asError(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), req.Timeout)
	gen, err := g.prepare(ctx, req)
	cancel()
	if err != nil {
		g.fail(w, endpoint, asError(err))
		return
	}
	if req.Stream {
		err = g.stream(w, r, gen, endpoint)
	} else {
		err = g.whole(w, r, gen)
	}
	if err != nil {
		g.fail(w, endpoint, asError(err))
		return
	}
	g.metrics.answered(endpoint, http.StatusOK)
}

func readRequest(w http.ResponseWriter, r *http.Request, isChat bool) (*openai.Request, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		e := openai.Invalid("", fmt.Sprintf("the request is larger than %d bytes", maxBody))
		e.Status = http.StatusRequestEntityTooLarge
		return nil, e
	}
	if err != nil {
		return nil, openai.Invalid("", "the request could not be read: "+err.Error())
	}
	req, err := openai.Decode(data, isChat)
	if err != nil {
		return nil, err
	}
	if err := req.SetPriority(r.Header.Get("X-Troupe-Priority")); err != nil {
		return nil, err
	}
	return req, nil
}

func (g *Gateway) whole(w http.ResponseWriter, r *http.Request, gen *generation) error {
	all := newGather(gen)
	if err := g.run(r.Context(), gen, all.write); err != nil {
		return err
	}
	g.metrics.generated(gen)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(answerOf(gen).Whole(nil, all.choices, gen.usage()), '\n')) // the client may have left
	return nil
}

// stream writes server-sent events. An error after the first of them is one itself: the status is sent already.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, gen *generation, endpoint string) error {
	answer, control := answerOf(gen), http.NewResponseController(w)
	buf := make([]byte, 0, 512)
	begun := false
	send := func(event []byte) error {
		if !begun {
			begun = true
			h := w.Header()
			h.Set("Content-Type", "text/event-stream")
			h.Set("Cache-Control", "no-cache")
			h.Set("X-Accel-Buffering", "no")
		}
		if _, err := w.Write(event); err != nil {
			return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
		}
		return control.Flush()
	}
	offsets := make([]int, len(gen.choices))
	err := g.run(r.Context(), gen, func(p piece) error {
		c := gen.choiceOf(p, offsets[p.index])
		offsets[p.index] += len([]rune(p.text))
		buf = answer.Chunk(append(buf[:0], "data: "...), c)
		return send(append(buf, "\n\n"...))
	})
	switch {
	case err != nil && !begun:
		return err
	case err != nil:
		e := asError(err)
		g.metrics.answered(endpoint, e.Status)
		_ = send(append(append([]byte("data: "), e.JSON()...), "\n\n"...)) // the client may have left
		panic(http.ErrAbortHandler)                                        // the stream is not whole: say so by cutting it
	}
	g.metrics.generated(gen)
	buf = buf[:0]
	if gen.request.IncludeUsage {
		buf = append(answer.UsageChunk(append(buf, "data: "...), gen.usage()), "\n\n"...)
	}
	_ = send(append(buf, "data: [DONE]\n\n"...)) // the client may have left
	return nil
}

func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	all, err := g.cfg.Directory.Deployments(r.Context())
	if err != nil {
		g.fail(w, "models", asError(err))
		return
	}
	list := make([]map[string]any, len(all))
	for i, d := range all {
		list[i] = g.describe(d)
	}
	g.metrics.answered("models", http.StatusOK)
	answerJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (g *Gateway) getModel(w http.ResponseWriter, r *http.Request) {
	d, err := g.cfg.Directory.Deployment(r.Context(), r.PathValue("model"))
	if err != nil {
		g.fail(w, "models", asError(err))
		return
	}
	g.metrics.answered("models", http.StatusOK)
	answerJSON(w, http.StatusOK, g.describe(d))
}

func (g *Gateway) describe(d *messages.DeploymentStatus) map[string]any {
	m := map[string]any{"id": d.GetSpec().GetName(), "object": "model", "created": 0, "owned_by": "troupe", "root": d.GetSpec().GetPath()}
	if known, err := g.models.of(d); err == nil {
		m["max_model_len"] = known.context
	}
	return m
}

// ready answers 200 when every deployment has a replica that serves.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	all, err := g.cfg.Directory.Deployments(r.Context())
	if err != nil {
		g.fail(w, "ready", asError(err))
		return
	}
	waiting := map[string]string{}
	for _, d := range all {
		if s := d.GetState(); s != messages.DeploymentState_DEPLOYMENT_STATE_READY && s != messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED {
			waiting[d.GetSpec().GetName()] = d.GetDetail()
		}
	}
	status := http.StatusOK
	if len(waiting) > 0 {
		status = http.StatusServiceUnavailable
	}
	answerJSON(w, status, map[string]any{"ready": len(waiting) == 0, "waiting": waiting})
}

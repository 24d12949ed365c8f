package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"troupe/actors/supervise"
	"troupe/gateway"
)

const shortRequest = `{"model":"kjv","prompt":"a","max_tokens":4}`

// endpointStatuses returns the statuses of probes and requests, with a c if the connection closes.
func endpointStatuses(w *testGateway) string {
	said := ""
	for _, rec := range []*httptest.ResponseRecorder{
		w.get("/live"), w.get("/health"), w.get("/ready"), w.get("/metrics"), w.get("/v1/models"),
		w.post("/v1/completions", shortRequest),
	} {
		said += fmt.Sprintf("%d%s ", rec.Code, strings.Replace(rec.Header().Get("Connection"), "close", "c", 1))
	}
	return said
}

// TestDrainPhases checks the responses in each phase. Probes are served in all of them.
func TestDrainPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("God did.", finishStop))
		for _, phase := range []struct {
			name, want string
			enter      func()
		}{
			{"accepting", "200 200 200 200 200 200 ", func() {}},
			{"draining", "200 200 503 200 200c 200c ", w.Drain},
			{"refusing", "200 200 503 200 503c 503c ", w.Close},
			{"closed, then drained", "200 200 503 200 503c 503c ", w.Drain},
		} {
			phase.enter()
			if got := endpointStatuses(w); got != phase.want {
				t.Errorf("%s: %s, want %s", phase.name, got, phase.want)
			}
		}
		if rec := w.get("/ready"); strings.TrimSpace(rec.Body.String()) != `{"ready":false,"causes":["draining"]}` {
			t.Errorf("/ready: %s", rec.Body)
		}
		rec := w.post("/v1/completions", shortRequest)
		if e := readResponses(t, rec)[0].Error; e.Message == "" || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("a refused request: %s, Retry-After %q", rec.Body, rec.Header().Get("Retry-After"))
		}
	})
}

// TestOperatorDrainFailsReadinessOnly checks that nodes.drain fails /ready and refuses no request.
func TestOperatorDrainFailsReadinessOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := func(cfg *gateway.Config) { cfg.Draining = func() bool { return true } }
		w := newTestGateway(t, generate("God did.", finishStop), yes)
		if got, want := endpointStatuses(w), "200 200 503 200 200 200 "; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestWaitReturnsAfterLastRequest checks that requests in flight over HTTP and NATS complete after
// Close, and that Wait returns then.
func TestWaitReturnsAfterLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
			<-gate
			generate("God did.", finishStop)(ctx, call)
		})
		over := make(chan *httptest.ResponseRecorder, 1)
		go func() { over <- w.post("/v1/completions", shortRequest) }()
		message := &recordedRequest{subject: "troupe.v1.infer.kjv", reply: "_INBOX.a", data: []byte(shortRequest)}
		w.Infer(message)
		synctest.Wait()
		w.Drain()
		w.Close()
		late := &recordedRequest{subject: "troupe.v1.infer.kjv", reply: "_INBOX.b", data: []byte(shortRequest)}
		w.Infer(late)
		if got := late.errors(); got != "503 1" {
			t.Errorf("NATS request to a closed gateway: %q", got)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if n := w.Wait(ended); n != 2 {
			t.Errorf("%d requests in flight, want 2", n)
		}
		waited := make(chan int, 1)
		go func() { waited <- w.Wait(t.Context()) }()
		for under := 2; under > 0; under-- {
			synctest.Wait()
			select {
			case n := <-waited:
				t.Fatalf("Wait returned %d with %d requests in flight", n, under)
			default:
			}
			gate <- struct{}{} // lets one request continue
			time.Sleep(time.Minute)
		}
		if rec := <-over; rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "God did.") {
			t.Errorf("the request in flight: %d %s", rec.Code, rec.Body)
		}
		if n := <-waited; n != 0 {
			t.Errorf("Wait returned %d", n)
		}
		if got := message.errors(); got != "" {
			t.Errorf("the request over NATS: %s", got)
		}
	})
}

// TestStartingHandler checks that only probes are served before the gateway starts.
func TestStartingHandler(t *testing.T) {
	h := gateway.StartingHandler(supervise.System)
	for request, want := range map[string]string{
		"GET /live": "200", "GET /health": "200", "GET /ready": "503", "POST /ready": "503 1", "GET /metrics": "503 1",
		"GET /v1/models": "503 1", "POST /v1/completions": "503 1", "GET /anything": "503 1",
	} {
		method, path, _ := strings.Cut(request, " ")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(shortRequest)))
		if got := strings.TrimSpace(fmt.Sprint(rec.Code, " ", rec.Header().Get("Retry-After"))); got != want {
			t.Errorf("%s: %q, want %q: %s", request, got, want, rec.Body)
		}
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/ready", nil))
	if got := strings.TrimSpace(rec.Body.String()); got != `{"ready":false,"causes":["starting"]}` {
		t.Errorf("/ready: %s", got)
	}
}

// recordedRequest is a request over NATS, without a server.
type recordedRequest struct {
	subject, reply string
	data           []byte
	mu             sync.Mutex
	failed         string
}

func (r *recordedRequest) Subject() string        { return r.subject }
func (r *recordedRequest) Reply() string          { return r.reply }
func (r *recordedRequest) Headers() micro.Headers { return nil }
func (r *recordedRequest) Data() []byte           { return r.data }
func (r *recordedRequest) Account() string        { return "" }

// Respond records the code and the Retry-After header of an error response.
func (r *recordedRequest) Respond(_ []byte, opts ...micro.RespondOpt) error {
	msg := &nats.Msg{}
	for _, opt := range opts {
		opt(msg)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		r.failed = code + " " + msg.Header.Get("Retry-After")
	}
	return nil
}

func (r *recordedRequest) errors() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

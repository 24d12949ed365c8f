package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/backend"
	"troupe/engine"
	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

// TestRequestEndsAtDeadline checks that a request whose session delivers nothing, or stops
// delivering, fails at its deadline.
func TestRequestEndsAtDeadline(t *testing.T) {
	for name, act := range map[string]sessionFunc{
		"silent":           noOutput,
		"silent after one": func(ctx context.Context, call *gateway.Call) { deliver(call, 70); <-ctx.Done() },
	} {
		for _, tc := range []struct {
			body, header string
			after        time.Duration
		}{
			{``, "", 10 * time.Minute},
			{`,"timeout":2.5`, "", 2500 * time.Millisecond},
			{`,"timeout":2.5`, "90", 90 * time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newTestGateway(t, act)
				began := time.Now()
				rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a"`+tc.body+`}`, "X-Troupe-Timeout",
					tc.header)
				took := time.Since(began)
				if e := readResponses(t, rec)[0].Error; rec.Code != http.StatusGatewayTimeout || e.Code == nil ||
					*e.Code != "timeout" ||
					!strings.Contains(e.Message, "raise timeout") {
					t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
				}
				if took < tc.after || took > tc.after+2*time.Second {
					t.Errorf("%s: it took %v, not %v", name, took, tc.after)
				}
				synctest.Wait()
				if w.calls.Open() != 0 {
					t.Errorf("%s: %d calls are open", name, w.calls.Open())
				}
			})
		}
	}
}

// TestSessionEndWithoutOutputFailsCall checks that a session that ends without output fails its
// call.
func TestSessionEndWithoutOutputFailsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rec := newTestGateway(t,
			func(context.Context, *gateway.Call) {}).post("/v1/completions", `{"model":"kjv","prompt":"a"}`)
		if rec.Code != 500 || !strings.Contains(rec.Body.String(), "crashed repeatedly") ||
			time.Since(began) > time.Second {
			t.Errorf("%d %s after %v", rec.Code, rec.Body, time.Since(began))
		}
	})
}

// TestLookupCountsTowardsDeadline checks that a slow directory counts towards the request's
// deadline.
func TestLookupCountsTowardsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, noOutput,
			func(c *gateway.Config) { c.Directory = slowDirectory{c.Directory, 40 * time.Second} })
		for timeout, most := range map[string]time.Duration{"60": 62 * time.Second, "20": 20 * time.Second} {
			began := time.Now()
			rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a","timeout":`+timeout+`}`)
			if rec.Code != 504 || time.Since(began) > most {
				t.Errorf("timeout %s: %d after %v", timeout, rec.Code, time.Since(began))
			}
		}
	})
}

type slowDirectory struct {
	gateway.Directory
	delay time.Duration
}

func (s slowDirectory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	if !sleepOrEnd(ctx, s.delay) {
		return nil, ctx.Err()
	}
	return s.Directory.Deployment(ctx, name)
}

// TestDisconnectClosesSessions checks that a disconnect closes the sessions immediately, before and
// after the first token.
func TestDisconnectClosesSessions(t *testing.T) {
	for name, act := range map[string]sessionFunc{
		"silent": noOutput, "generating": generate(strings.Repeat("a", 1000), finishLength),
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newTestGateway(t, act)
				ctx, leave := context.WithCancel(t.Context())
				time.AfterFunc(5*tokenInterval+tokenInterval/2, leave)
				body := fmt.Sprintf(`{"model":"kjv","prompt":"a","n":2,"max_tokens":1000,"stream":%v}`, stream)
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", strings.NewReader(body))
				began := time.Now()
				w.serve(httptest.NewRecorder(), r)
				took := time.Since(began)
				synctest.Wait()
				if opened, closed := w.sessions(); len(opened) != 2 || closed != 2 || w.calls.Open() != 0 ||
					took > 6*tokenInterval {
					t.Errorf("%s, stream %v: %d of %d sessions were closed after %v, %d calls are open", name,
						stream, closed, len(opened), took, w.calls.Open())
				}
			})
		}
	}
}

// TestRefusalStatusAndCode checks the status, type and code of each reason, for refusals of the
// session and of the directory.
func TestRefusalStatusAndCode(t *testing.T) {
	for reason, want := range map[messages.Reason]string{
		messages.Reason_REASON_QUEUE_FULL:    "429 rate_limit_error rate_limit_exceeded retry 3",
		messages.Reason_REASON_NOT_READY:     "503 server_error model_not_ready retry 3",
		messages.Reason_REASON_LOAD_FAILED:   "503 server_error  retry 3",
		messages.Reason_REASON_NOT_FOUND:     "404 invalid_request_error model_not_found retry 3",
		messages.Reason_REASON_TOO_LONG:      "400 invalid_request_error context_length_exceeded retry 3",
		messages.Reason_REASON_ENGINE_FAILED: "500 server_error  retry 3",
		messages.Reason_REASON_NUMERIC:       "500 server_error  retry 3",
		messages.Reason_REASON_DEADLINE:      "504 server_error timeout retry 3",
		messages.Reason_REASON_UNSPECIFIED:   "500 server_error  retry 3",
	} {
		refused := &messages.Refused{
			Reason:     reason,
			Detail:     "so it is\nwith \"it\"",
			RetryAfter: durationpb.New(2100 * time.Millisecond),
		}
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newTestGateway(t, func(_ context.Context, call *gateway.Call) { call.Fail(refused) })
				body := fmt.Sprintf(`{"model":"kjv","prompt":"a","stream":%v}`, stream)
				detail := refused.GetDetail()
				if reason == messages.Reason_REASON_LOAD_FAILED { // it would reveal paths
					detail = "the model could not be loaded; see the node's log"
				}
				checkRefusal(t, w.post("/v1/completions", body), detail, want)
				w.directory.fail(refusedError{refused})
				checkRefusal(t, w.post("/v1/completions", body), detail, want)
			})
		}
	}
}

func checkRefusal(t *testing.T, rec *httptest.ResponseRecorder, detail, want string) {
	t.Helper()
	e, code := readResponses(t, rec)[0].Error, ""
	if e.Code != nil {
		code = *e.Code
	}
	if got := fmt.Sprintf("%d %s %s retry %s", rec.Code, e.Type, code, rec.Header().Get("Retry-After")); got != want ||
		e.Message != detail {
		t.Errorf("%s (%q), want %s", got, e.Message, want)
	}
}

// TestRefusalAbortsStream checks that a refusal is the last event of a stream, which is then
// aborted.
func TestRefusalAbortsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
			deliver(call, testTokenizer().Encode("And", false)...)
			sleepOrEnd(ctx, tokenInterval)
			call.Fail(&messages.Refused{Reason: messages.Reason_REASON_ENGINE_FAILED, Detail: "the engine failed"})
		})
		rec := httptest.NewRecorder()
		aborted := w.serve(rec, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
			strings.NewReader(`{"model":"kjv","stream":true,"messages":[{"role":"user","content":"a"}]}`)))
		all := readResponses(t, rec)
		if len(all) != 2 || choiceTexts(all)[0] != "And" || all[1].Error.Message != "the engine failed" || !aborted ||
			strings.Contains(rec.Body.String(), "DONE") {
			t.Errorf("%s, aborted %v", rec.Body, aborted)
		}
		got := w.metric(`troupe_gateway_requests_total{endpoint="chat_completions",model="kjv",status="500"}`)
		if got != "1" {
			t.Errorf("counted %q", got)
		}
	})
}

// TestExcessRequestsRefusedImmediately checks that requests beyond the limit are refused without
// waiting.
func TestExcessRequestsRefusedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One client may hold half of the places.
		w := newTestGateway(t, generate("a", finishStop), func(c *gateway.Config) { c.MaxInFlight = 4 })
		const body = `{"model":"kjv","prompt":"a"}`
		done := make(chan int, 2)
		for range 2 {
			go func() { done <- w.post("/v1/completions", body).Code }()
		}
		synctest.Wait()
		if rec := w.post("/v1/completions", body); rec.Code != 429 || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if a, b := <-done, <-done; a != 200 || b != 200 {
			t.Errorf("the other requests: %d and %d", a, b)
		}
		if rec := w.post("/v1/completions", body); rec.Code != 200 {
			t.Errorf("request after the others: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestPanicFailsOneRequest checks that a panic fails only its own request, each time.
func TestPanicFailsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("a", finishStop), func(c *gateway.Config) {
			c.Inspect = func(_ backend.Kind, path string) (engine.ModelInfo, error) {
				if path == "poison" {
					panic("test: the model is poison")
				}
				return inspectModel("", path)
			}
		})
		w.directory.add(&messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: "poison", Path: "poison"}})
		for range 2 {
			if rec := w.post("/v1/completions", `{"model":"poison","prompt":"a"}`); rec.Code < 500 ||
				readResponses(t, rec)[0].Error.Type != "server_error" {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		}
		if rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a"}`); rec.Code != 200 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// TestGatewayActorRestartResumesCalls checks that the restarted gateway actor starts a session for
// every open call, which continues after the tokens that were delivered.
func TestGatewayActorRestartResumesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = " And God said, Let there be light"
		w := newTestGateway(t, generate(text, finishStop))
		for _, at := range []time.Duration{3*tokenInterval + tokenInterval/2, 20 * tokenInterval} {
			time.AfterFunc(at, func() { w.sys.Root.Send(w.actor, &messages.OpenSession{RequestId: crashRequestID}) })
		}
		rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a","n":2,"stream":true}`)
		got := choiceTexts(readResponses(t, rec))
		if got[0] != text || got[1] != text {
			t.Errorf("%v", got)
		}
		if opened, _ := w.sessions(); len(opened) != 4 {
			t.Errorf("%d sessions were started, want 2 for each of 2 calls", len(opened))
		}
	})
}

// TestRepeatedSessionCrashFailsCall checks that a call fails when its session crashes too often,
// and not before.
func TestRepeatedSessionCrashFailsCall(t *testing.T) {
	for crashes, want := range map[int]int{3: 504, 4: 500} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestGateway(t, noOutput)
			done := make(chan *httptest.ResponseRecorder)
			go func() { done <- w.post("/v1/completions", `{"model":"kjv","prompt":"a","timeout":60}`) }()
			for range crashes {
				synctest.Wait()
				opened, _ := w.sessions()
				w.sys.Root.Send(actor.NewPID(w.actor.GetAddress(), w.actor.GetId()+"/session-"+opened[0].ID),
					&messages.CancelSequence{})
				time.Sleep(2 * time.Second) // wait for the supervisor's backoff
			}
			if rec := <-done; rec.Code != want {
				t.Errorf("%d crashes: %d %s", crashes, rec.Code, rec.Body)
			}
		})
	}
}

// TestSlowFolderCountsTowardsDeadline checks that a request whose model is still being read ends at
// its deadline and when its client disconnects, whether it started the load or waits for it.
func TestSlowFolderCountsTowardsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("a", finishStop), func(c *gateway.Config) {
			c.Inspect = func(_ backend.Kind, path string) (engine.ModelInfo, error) {
				time.Sleep(time.Minute)
				return inspectModel("", path)
			}
		})
		for range 2 {
			began := time.Now()
			rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a","timeout":2}`)
			if took := time.Since(began); rec.Code != http.StatusGatewayTimeout || took > 3*time.Second {
				t.Errorf("%d %s after %v", rec.Code, rec.Body, took)
			}
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions",
			strings.NewReader(`{"model":"kjv","prompt":"a"}`))
		began := time.Now()
		w.serve(httptest.NewRecorder(), r)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the request ended %v after its client disconnected", took)
		}
		if rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a"}`); rec.Code != http.StatusOK {
			t.Errorf("a patient request: %d %s", rec.Code, rec.Body)
		}
	})
}

// brokenWriter is a response whose client has disconnected: flushing it fails.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) FlushError() error { return errors.New("test: broken pipe") }

// TestFailedFlushIsDisconnect checks that a stream that cannot be flushed is counted as cancelled by
// its client.
func TestFailedFlushIsDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("God did.", finishStop))
		aborted := w.serve(brokenWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost,
			"/v1/completions", strings.NewReader(`{"model":"kjv","prompt":"a","stream":true}`)))
		for status, want := range map[string]string{"499": "1", "500": ""} {
			series := `troupe_gateway_requests_total{endpoint="completions",model="kjv",status="` + status + `"}`
			if got := w.metric(series); got != want || !aborted {
				t.Errorf("%s is %q, want %q; aborted %v", series, got, want, aborted)
			}
		}
	})
}

// panickingRequest is a request over NATS that panics when it is read, or when its response is sent.
type panickingRequest struct {
	*recordedRequest
	read, sent bool // what panics
}

func (r *panickingRequest) Headers() micro.Headers {
	if r.read {
		panic("test: the headers are poison")
	}
	return nil
}

func (r *panickingRequest) Respond(data []byte, opts ...micro.RespondOpt) error {
	if r.sent && len(opts) == 0 {
		panic("test: the response is poison")
	}
	return r.recordedRequest.Respond(data, opts...)
}

// TestPanicFailsOneNATSRequest checks that a panic fails only its own request over NATS: while the
// request is read, while its response is written, and while its error is.
func TestPanicFailsOneNATSRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("a", finishStop))
		for name, poison := range map[string]panickingRequest{"read": {read: true}, "sent": {sent: true}} {
			for _, stream := range []string{"true", "false"} {
				poison.recordedRequest = &recordedRequest{
					subject: "troupe.v1.infer.kjv", reply: "_INBOX.a",
					data: []byte(`{"prompt":"a","stream":` + stream + `}`),
				}
				w.Infer(&poison)
				time.Sleep(time.Minute)
				if got := poison.errors(); got != "500 " {
					t.Errorf("%s, stream %s: %q, want an error 500", name, stream, got)
				}
			}
		}
		if got := w.metric("troupe_gateway_requests_in_flight"); got != "0" || w.calls.Open() != 0 {
			t.Errorf("%s requests in flight, %d calls are open", got, w.calls.Open())
		}
		if n := w.Wait(t.Context()); n != 0 {
			t.Errorf("%d requests hold the gate", n)
		}
	})
}

// TestDeletedDeploymentIsForgotten checks that a deployment that was deleted leaves neither its
// model nor its metrics behind, once the deployments are listed or another model is loaded.
func TestDeletedDeploymentIsForgotten(t *testing.T) {
	for name, notice := range map[string]func(w *testGateway){
		"list":  func(w *testGateway) { w.get("/v1/models") },
		"ready": func(w *testGateway) { w.get("/ready") },
		"load": func(w *testGateway) {
			w.post("/v1/completions", `{"model":"kjv","prompt":"a"}`)
			synctest.Wait()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			loads := 0
			w := newTestGateway(t, generate("a", finishStop), func(c *gateway.Config) {
				c.Inspect = func(_ backend.Kind, path string) (engine.ModelInfo, error) {
					loads++
					return inspectModel("", path)
				}
			})
			kept := w.directory.all
			w.directory.add(&messages.DeploymentStatus{Spec: &messages.DeploymentSpec{
				Name: "brief", Path: testkit.Model(), BlockTokens: new(uint32(16)),
			}})
			const body = `{"model":"brief","prompt":"a"}`
			series := []string{
				`troupe_gateway_requests_total{endpoint="completions",model="brief",status="200"}`,
				`troupe_gateway_prompt_tokens_total{model="brief"}`,
				`troupe_gateway_request_duration_seconds_count{model="brief"}`,
			}
			for range 2 {
				w.post("/v1/completions", body)
			}
			synctest.Wait()
			for _, s := range series {
				if w.metric(s) == "" || loads != 1 {
					t.Errorf("%s: no series %s while deployed, %d loads", name, s, loads)
				}
			}
			w.directory.mu.Lock()
			all := w.directory.all
			w.directory.all = kept
			w.directory.mu.Unlock()
			notice(w)
			for _, s := range series {
				if got := w.metric(s); got != "" {
					t.Errorf("%s: %s is %s", name, s, got)
				}
			}
			w.directory.mu.Lock()
			w.directory.all = all
			w.directory.mu.Unlock()
			before := loads
			if rec := w.post("/v1/completions", body); rec.Code != http.StatusOK || loads != before+1 {
				t.Errorf("%s: deployed again: %d %s, %d loads", name, rec.Code, rec.Body, loads-before)
			}
		})
	}
}

// panickingBody is a request body that panics when it is read.
type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic("test: the body is poison") }

// TestPanicWhileReadingFailsOneRequest checks that a panic while a body is read over HTTP fails
// only that request and releases its memory.
func TestPanicWhileReadingFailsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("a", finishStop))
		rec := httptest.NewRecorder()
		w.serve(rec, httptest.NewRequest(http.MethodPost, "/v1/completions", panickingBody{}))
		if rec.Code != http.StatusInternalServerError || readResponses(t, rec)[0].Error.Type != "server_error" {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if got := w.metric("troupe_gateway_body_bytes"); got != "0" {
			t.Errorf("%s bytes are reserved", got)
		}
		if got := w.metric(`troupe_gateway_requests_total{endpoint="completions",model="",status="500"}`); got != "1" {
			t.Errorf("counted %q", got)
		}
	})
}

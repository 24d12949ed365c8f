package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/engine"
	"troupe/gateway"
	"troupe/messages"
)

// TestEveryRequestEnds: a session that is silent, or gone, costs the client its time and no more.
func TestEveryRequestEnds(t *testing.T) {
	for name, act := range map[string]play{
		"silent":           silent,
		"silent after one": func(ctx context.Context, call *gateway.Call) { deliver(call, 70); <-ctx.Done() },
	} {
		for _, tc := range []struct {
			body, header string
			after        time.Duration
		}{
			{``, "", 10 * time.Minute}, {`,"timeout":2.5`, "", 2500 * time.Millisecond}, {`,"timeout":2.5`, "90", 90 * time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, act)
				began := time.Now()
				rec := w.ask("/v1/completions", `{"model":"kjv","prompt":"a"`+tc.body+`}`, "X-Troupe-Timeout", tc.header)
				took := time.Since(began)
				if e := read(t, rec)[0].Error; rec.Code != http.StatusGatewayTimeout || e.Code == nil || *e.Code != "timeout" || !strings.Contains(e.Message, "raise timeout") {
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

// TestSessionThatEndsWithoutAWord fails its call.
func TestSessionThatEndsWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rec := newWorld(t, func(context.Context, *gateway.Call) {}).ask("/v1/completions", `{"model":"kjv","prompt":"a"}`)
		if rec.Code != 500 || !strings.Contains(rec.Body.String(), "crashed again and again") || time.Since(began) > time.Second {
			t.Errorf("%d %s after %v", rec.Code, rec.Body, time.Since(began))
		}
	})
}

// TestSlowDirectoryCountsAsTime of the request.
func TestSlowDirectoryCountsAsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, silent, func(c *gateway.Config) { c.Directory = slow{c.Directory, 40 * time.Second} })
		for timeout, most := range map[string]time.Duration{"60": 62 * time.Second, "20": 20 * time.Second} {
			began := time.Now()
			if rec := w.ask("/v1/completions", `{"model":"kjv","prompt":"a","timeout":`+timeout+`}`); rec.Code != 504 || time.Since(began) > most {
				t.Errorf("timeout %s: %d after %v", timeout, rec.Code, time.Since(began))
			}
		}
	})
}

type slow struct {
	gateway.Directory
	by time.Duration
}

func (s slow) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	if !rest(ctx, s.by) {
		return nil, ctx.Err()
	}
	return s.Directory.Deployment(ctx, name)
}

// TestDisconnectEndsTheSessions at once, before and after the first token.
func TestDisconnectEndsTheSessions(t *testing.T) {
	for name, act := range map[string]play{"silent": silent, "speaking": says(strings.Repeat("a", 1000), length)} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, act)
				ctx, leave := context.WithCancel(t.Context())
				time.AfterFunc(5*beat+beat/2, leave)
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions",
					strings.NewReader(fmt.Sprintf(`{"model":"kjv","prompt":"a","n":2,"max_tokens":1000,"stream":%v}`, stream)))
				began := time.Now()
				w.serve(httptest.NewRecorder(), r)
				took := time.Since(began)
				synctest.Wait()
				if opened, closed := w.seen(); len(opened) != 2 || closed != 2 || w.calls.Open() != 0 || took > 6*beat {
					t.Errorf("%s, stream %v: %d of %d sessions were told to end after %v, %d calls are open", name, stream, closed, len(opened), took, w.calls.Open())
				}
			})
		}
	}
}

// TestRefusals: each reason has its status, type and code, whether the session or the directory refuses.
func TestRefusals(t *testing.T) {
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
		refused := &messages.Refused{Reason: reason, Detail: "so it is\nwith \"it\"", RetryAfter: durationpb.New(2100 * time.Millisecond)}
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(_ context.Context, call *gateway.Call) { call.Fail(refused) })
				body := fmt.Sprintf(`{"model":"kjv","prompt":"a","stream":%v}`, stream)
				detail := refused.GetDetail()
				if reason == messages.Reason_REASON_LOAD_FAILED { // it names files
					detail = "the model could not be loaded; the log of the node says why"
				}
				checkRefusal(t, w.ask("/v1/completions", body), detail, want)
				w.directory.err = refusal{refused}
				checkRefusal(t, w.ask("/v1/completions", body), detail, want)
			})
		}
	}
}

func checkRefusal(t *testing.T, rec *httptest.ResponseRecorder, detail, want string) {
	t.Helper()
	e, code := read(t, rec)[0].Error, ""
	if e.Code != nil {
		code = *e.Code
	}
	if got := fmt.Sprintf("%d %s %s retry %s", rec.Code, e.Type, code, rec.Header().Get("Retry-After")); got != want || e.Message != detail {
		t.Errorf("%s (%q), want %s", got, e.Message, want)
	}
}

// TestRefusalInAStream is its last event; the stream is cut, not ended.
func TestRefusalInAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(ctx context.Context, call *gateway.Call) {
			deliver(call, tokens().Encode("And", false)...)
			rest(ctx, beat)
			call.Fail(&messages.Refused{Reason: messages.Reason_REASON_ENGINE_FAILED, Detail: "the engine failed"})
		})
		rec := httptest.NewRecorder()
		aborted := w.serve(rec, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
			strings.NewReader(`{"model":"kjv","stream":true,"messages":[{"role":"user","content":"a"}]}`)))
		all := read(t, rec)
		if len(all) != 2 || joined(all)[0] != "And" || all[1].Error.Message != "the engine failed" || !aborted || strings.Contains(rec.Body.String(), "DONE") {
			t.Errorf("%s, aborted %v", rec.Body, aborted)
		}
		if got := w.metric(`troupe_gateway_requests_total{endpoint="chat_completions",model="kjv",status="500"}`); got != "1" {
			t.Errorf("counted %q", got)
		}
	})
}

// TestMoreRequestsThanAreServed are answered at once.
func TestMoreRequestsThanAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("a", stop), func(c *gateway.Config) { c.MaxInFlight = 4 }) // one client may hold half
		const body = `{"model":"kjv","prompt":"a"}`
		done := make(chan int, 2)
		for range 2 {
			go func() { done <- w.ask("/v1/completions", body).Code }()
		}
		synctest.Wait()
		if rec := w.ask("/v1/completions", body); rec.Code != 429 || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if a, b := <-done, <-done; a != 200 || b != 200 {
			t.Errorf("the others got %d and %d", a, b)
		}
		if rec := w.ask("/v1/completions", body); rec.Code != 200 {
			t.Errorf("after them: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestPanicCostsOneRequest: what the gateway can not digest is that request's error, and the next one's of its kind.
func TestPanicCostsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("a", stop), func(c *gateway.Config) {
			c.Inspect = func(path string) (engine.ModelInfo, error) {
				if path == "poison" {
					panic("test: the model is poison")
				}
				return inspect(path)
			}
		})
		w.directory.add(&messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: "poison", Path: "poison"}})
		for range 2 {
			if rec := w.ask("/v1/completions", `{"model":"poison","prompt":"a"}`); rec.Code < 500 || read(t, rec)[0].Error.Type != "server_error" {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		}
		if rec := w.ask("/v1/completions", `{"model":"kjv","prompt":"a"}`); rec.Code != 200 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// TestGatewayActorRestarts: its successor starts a session for every call that is open, which goes on after what the client has.
func TestGatewayActorRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = " And God said, Let there be light"
		w := newWorld(t, says(text, stop))
		for _, at := range []time.Duration{3*beat + beat/2, 20 * beat} {
			time.AfterFunc(at, func() { w.sys.Root.Send(w.actor, &messages.OpenSession{RequestId: crash}) })
		}
		got := joined(read(t, w.ask("/v1/completions", `{"model":"kjv","prompt":"a","n":2,"stream":true}`)))
		if got[0] != text || got[1] != text {
			t.Errorf("%v", got)
		}
		if opened, _ := w.seen(); len(opened) != 4 {
			t.Errorf("%d sessions were started, want 2 for each of 2 calls", len(opened))
		}
	})
}

// TestSessionThatCrashesAgainAndAgain fails its call; one that does not crash as often does not.
func TestSessionThatCrashesAgainAndAgain(t *testing.T) {
	for crashes, want := range map[int]int{3: 504, 4: 500} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, silent)
			done := make(chan *httptest.ResponseRecorder)
			go func() { done <- w.ask("/v1/completions", `{"model":"kjv","prompt":"a","timeout":60}`) }()
			for range crashes {
				synctest.Wait()
				opened, _ := w.seen()
				w.sys.Root.Send(actor.NewPID(w.actor.GetAddress(), w.actor.GetId()+"/session-"+opened[0].ID), &messages.CancelSequence{})
				time.Sleep(2 * time.Second) // its supervisor waits before it restarts it
			}
			if rec := <-done; rec.Code != want {
				t.Errorf("%d crashes: %d %s", crashes, rec.Code, rec.Body)
			}
		})
	}
}

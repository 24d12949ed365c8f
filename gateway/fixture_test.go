package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/control/catalogue"
	"troupe/core/backend"
	"troupe/core/kv"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/gateway"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
	"troupe/testkit"
)

// testGateway is a gateway with its actor. Functions of the tests act as its sessions.
type testGateway struct {
	*gateway.Gateway
	t         testing.TB
	sys       *actor.ActorSystem
	actor     *actor.PID
	calls     *gateway.Calls
	directory *testDirectory
	adapters  *testAdapters

	mu      sync.Mutex
	started []*gateway.Call          // calls of started sessions in order, repeated after a crash
	closed  int                      // number of sessions that received CloseSession
	demand  *messages.DemandReported // the last one
}

// sessionFunc is the work of a session for its call. It runs in a goroutine. The session ends when
// it returns, and ctx ends with the session.
type sessionFunc func(ctx context.Context, call *gateway.Call)

// newTestGateway starts a gateway that serves the model of the repository as kjv.
func newTestGateway(t testing.TB, act sessionFunc, change ...func(*gateway.Config)) *testGateway {
	t.Helper()
	w := &testGateway{
		t:         t,
		sys:       testkit.System(t),
		calls:     gateway.NewCalls(),
		directory: &testDirectory{},
		adapters:  &testAdapters{catalogue: catalogue.New()},
	}
	w.directory.add(&messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{
			Name: "kjv", Path: testkit.Model(),
			Priority: messages.Priority_PRIORITY_STANDARD.Enum(), BlockTokens: new(uint32(16)),
		},
		State: messages.DeploymentState_DEPLOYMENT_STATE_READY, Revision: 1, Replicas: oneServing("kjv"),
	})
	strategy := supervise.Strategy(nil)
	w.actor = testkit.Spawn(t, w.sys, "gateway", strategy, gateway.Props(gateway.ActorConfig{
		Calls: w.calls, Router: w.router(), Strategy: strategy, Log: zerolog.Nop(),
		Session: func(call *gateway.Call) *actor.Props { return w.session(call, act) },
	}), crashMiddleware)
	cfg := gateway.Config{
		Directory: w.directory, Adapters: w.adapters, Inspect: inspectModel, Calls: w.calls,
		Root: w.sys.Root, Actor: w.actor, Registry: prometheus.NewRegistry(), Log: zerolog.Nop(),
		Salt: func(tenant, cacheSalt string) ([]byte, error) {
			return kv.Salt(make([]byte, kv.SecretBytes), tenant, cacheSalt)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	w.Gateway = gateway.New(cfg)
	return w
}

// router returns the address of an actor that keeps the last report of demand.
func (w *testGateway) router() *actor.PID {
	return w.sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if msg, ok := c.Message().(*messages.DemandReported); ok {
			w.mu.Lock()
			w.demand = msg
			w.mu.Unlock()
		}
	}))
}

// oneServing returns the status of one serving replica of a model.
func oneServing(model string) []*messages.ReplicaStatus {
	return []*messages.ReplicaStatus{{
		Name: model + "-0", Model: model, State: messages.ReplicaState_REPLICA_STATE_SERVING,
	}}
}

func inspectModel(_ backend.Kind, path string) (engine.ModelInfo, error) {
	return llama.Loader{}.Inspect(path, cuda.Info{})
}

func (w *testGateway) session(call *gateway.Call, act sessionFunc) *actor.Props {
	var end context.CancelFunc
	return actor.PropsFromFunc(func(c actor.Context) {
		switch c.Message().(type) {
		case *actor.Started:
			w.mu.Lock()
			w.started = append(w.started, call)
			w.mu.Unlock()
			var ctx context.Context
			ctx, end = context.WithCancel(context.Background())
			self := c.Self()
			go func() {
				act(ctx, call)
				if ctx.Err() == nil {
					w.sys.Root.Stop(self)
				}
			}()
		case *messages.CloseSession:
			if !call.Left() {
				w.t.Error("the session is closed, but the call does not say that its client has left")
			}
			w.mu.Lock()
			w.closed++
			w.mu.Unlock()
			c.Stop(c.Self())
		case *messages.CancelSequence:
			panic("test: the session crashes")
		case *actor.Stopping, *actor.Restarting:
			end()
		}
	})
}

// crashRequestID is the request ID on which the gateway actor crashes.
const crashRequestID = "crash"

func crashMiddleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if m, ok := env.Message.(*messages.OpenSession); ok && m.GetRequestId() == crashRequestID {
			panic("test: the gateway actor crashes")
		}
		next(ctx, env)
	}
}

// sessions returns the calls of started sessions and the number of closed sessions.
func (w *testGateway) sessions() (opened []*gateway.Call, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(opened, w.started...), w.closed
}

// post sends a request without a network and returns the response.
func (w *testGateway) post(path, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.serve(rec, r)
	return rec
}

// serve calls the handler as net/http does. It reports whether the handler aborted the response.
func (w *testGateway) serve(rec http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			aborted = true
		} else if p != nil {
			panic(p)
		}
	}()
	w.ServeHTTP(rec, r)
	return false
}

func (w *testGateway) get(path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

// metric returns the value of a series, or "" if there is none.
func (w *testGateway) metric(series string) string {
	rec := httptest.NewRecorder()
	w.MetricsHandler(true).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// testTokenizer returns the tokenizer of the model kjv.
var testTokenizer = sync.OnceValue(func() *tokenizer.Tokenizer {
	t, err := tokenizer.Load(modelfile.Roots{}, testkit.Model())
	if err != nil {
		panic(err)
	}
	return t
})

// tokenInterval is the virtual time between two tokens.
const tokenInterval = 10 * time.Millisecond

// generate returns a session that delivers the tokens of a text one by one, tokenInterval apart. It
// is for tests in a bubble. finish is the finish reason of the last token.
func generate(text string, finish messages.FinishReason) sessionFunc {
	return generateAfter(text, finish, func(ctx context.Context) bool { return sleepOrEnd(ctx, tokenInterval) })
}

// generateAtOnce is like generate without pauses, for tests with real sockets.
func generateAtOnce(text string, finish messages.FinishReason) sessionFunc {
	return generateAfter(text, finish, func(ctx context.Context) bool { return ctx.Err() == nil })
}

// generateAfter delivers each token after a pause, which returns false once the session has ended.
func generateAfter(text string, finish messages.FinishReason, pause func(context.Context) bool) sessionFunc {
	return func(ctx context.Context, call *gateway.Call) {
		ids := testTokenizer().Encode(text, false)[len(call.Output()):]
		for i, id := range ids {
			if !pause(ctx) {
				return
			}
			if i == len(ids)-1 {
				deliverFinal(call, finish, id)
				return
			}
			deliver(call, id)
		}
		call.Deliver(nil, nil, 0, finish)
	}
}

func deliver(call *gateway.Call, ids ...uint32) {
	deliverFinal(call, messages.FinishReason_FINISH_REASON_UNSPECIFIED, ids...)
}

// deliverFinal delivers tokens with a finish reason.
func deliverFinal(call *gateway.Call, finish messages.FinishReason, ids ...uint32) {
	var logprobs []*messages.TokenLogprobs
	if s := call.Sequence.GetSampling(); s.GetLogprobs() {
		for _, id := range ids {
			logprobs = append(logprobs, logprobsOf(id, s.GetTopLogprobs()))
		}
	}
	call.Deliver(ids, logprobs, uint32(len(call.Sequence.GetPrompt())/16*16), finish)
}

// logprobsOf makes a token the likeliest, followed by the next ones in the vocabulary.
func logprobsOf(id uint32, top uint32) *messages.TokenLogprobs {
	l := &messages.TokenLogprobs{Logprob: -0.5}
	for i := range top {
		l.Top = append(l.Top, &messages.TokenLogprob{Token: id + i, Logprob: -0.5 * float32(i+1)})
	}
	return l
}

// sleepOrEnd sleeps and reports whether the session still runs afterwards.
func sleepOrEnd(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// noOutput is a session that never delivers anything.
func noOutput(ctx context.Context, _ *gateway.Call) { <-ctx.Done() }

// testDirectory is a Directory with the test's deployments.
type testDirectory struct {
	mu  sync.Mutex
	all []*messages.DeploymentStatus
	err error
}

func (d *testDirectory) add(s *messages.DeploymentStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, s)
}

// fail makes all further lookups return err.
func (d *testDirectory) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// replace replaces the status of a deployment.
func (d *testDirectory) replace(s *messages.DeploymentStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.all {
		if d.all[i].GetSpec().GetName() == s.GetSpec().GetName() {
			d.all[i] = s
		}
	}
}

func (d *testDirectory) Deployments(context.Context) ([]*messages.DeploymentStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*messages.DeploymentStatus(nil), d.all...), d.err
}

func (d *testDirectory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	all, err := d.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.GetSpec().GetName() == name {
			return s, nil
		}
	}
	return nil, refusedError{
		&messages.Refused{
			Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: fmt.Sprintf("model %q is not deployed", name),
		},
	}
}

// refusedError is a refusal as an error.
type refusedError struct{ *messages.Refused }

func (r refusedError) Error() string { return r.GetDetail() }

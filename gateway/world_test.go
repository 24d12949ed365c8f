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

// world is a gateway with its actor, over sessions that the test plays.
type world struct {
	*gateway.Gateway
	t         testing.TB
	sys       *actor.ActorSystem
	actor     *actor.PID
	calls     *gateway.Calls
	directory *directory
	adapters  *adapters

	mu     sync.Mutex
	opened []*gateway.Call // whose sessions were started, in order; again after a crash
	closed int             // sessions that were told to end
}

// play is what a session does for its call. It runs in a goroutine of its own; ctx ends with the session, which ends when it returns.
type play func(ctx context.Context, call *gateway.Call)

// newWorld starts a gateway that serves the shipped model, under the name kjv.
func newWorld(t testing.TB, act play, change ...func(*gateway.Config)) *world {
	t.Helper()
	w := &world{t: t, sys: testkit.System(t), calls: gateway.NewCalls(), directory: &directory{}, adapters: &adapters{catalogue: catalogue.New()}}
	w.directory.add(&messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{
			Name: "kjv", Path: testkit.Model(), Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD.Enum(), BlockTokens: new(uint32(16)),
		},
		State: messages.DeploymentState_DEPLOYMENT_STATE_READY, Revision: 1, Replicas: oneServes("kjv"),
	})
	strategy := supervise.Strategy(nil)
	w.actor = testkit.Spawn(t, w.sys, "gateway", strategy, gateway.Props(gateway.ActorConfig{
		Calls: w.calls, Strategy: strategy, Log: zerolog.Nop(), Session: func(call *gateway.Call) *actor.Props { return w.session(call, act) },
	}), crashes)
	cfg := gateway.Config{
		Directory: w.directory, Adapters: w.adapters, Inspect: inspect, Calls: w.calls, Root: w.sys.Root, Actor: w.actor, Registry: prometheus.NewRegistry(), Log: zerolog.Nop(),
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

// oneServes are the replicas of a model with one that serves.
func oneServes(model string) []*messages.ReplicaStatus {
	return []*messages.ReplicaStatus{{
		Name: model + "-0", Model: model, State: messages.ReplicaState_REPLICA_STATE_SERVING,
	}}
}

func inspect(path string) (engine.ModelInfo, error) { return llama.Loader{}.Inspect(path, cuda.Info{}) }

func (w *world) session(call *gateway.Call, act play) *actor.Props {
	var end context.CancelFunc
	return actor.PropsFromFunc(func(c actor.Context) {
		switch c.Message().(type) {
		case *actor.Started:
			w.mu.Lock()
			w.opened = append(w.opened, call)
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

// crash is a request id on which the gateway actor crashes.
const crash = "crash"

func crashes(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if m, ok := env.Message.(*messages.OpenSession); ok && m.GetRequestId() == crash {
			panic("test: the gateway actor crashes")
		}
		next(ctx, env)
	}
}

// seen returns the calls whose sessions were started, and how many sessions were told to end.
func (w *world) seen() (opened []*gateway.Call, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(opened, w.opened...), w.closed
}

// ask sends a request and returns the answer, without a network.
func (w *world) ask(path, body string, headers ...string) *httptest.ResponseRecorder {
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

// serve does what net/http does: a handler that aborts ends the answer where it is.
func (w *world) serve(rec http.ResponseWriter, r *http.Request) (aborted bool) {
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

func (w *world) get(path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

// metric returns the value of a series.
func (w *world) metric(series string) string {
	rec := httptest.NewRecorder()
	w.Scrapes(true).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// tokens is the shipped model's tokenizer.
var tokens = sync.OnceValue(func() *tokenizer.Tokenizer {
	t, err := tokenizer.Load(modelfile.Roots{}, testkit.Model())
	if err != nil {
		panic(err)
	}
	return t
})

// beat is the virtual time between two tokens.
const beat = 10 * time.Millisecond

// says is a session that delivers a text's tokens one by one, and finishes with the last.
func says(text string, finish messages.FinishReason) play {
	return func(ctx context.Context, call *gateway.Call) {
		ids := tokens().Encode(text, false)[len(call.Output()):]
		for i, id := range ids {
			if !rest(ctx, beat) {
				return
			}
			if i == len(ids)-1 {
				deliverEnd(call, finish, id)
				return
			}
			deliver(call, id)
		}
		call.Deliver(nil, nil, 0, finish)
	}
}

func deliver(call *gateway.Call, ids ...uint32) {
	deliverEnd(call, messages.FinishReason_FINISH_REASON_UNSPECIFIED, ids...)
}

// deliverEnd delivers tokens and how the output ends.
func deliverEnd(call *gateway.Call, finish messages.FinishReason, ids ...uint32) {
	var logprobs []*messages.TokenLogprobs
	if s := call.Sequence.GetSampling(); s.GetLogprobs() {
		for _, id := range ids {
			logprobs = append(logprobs, logprobsOf(id, s.GetTopLogprobs()))
		}
	}
	call.Deliver(ids, logprobs, uint32(len(call.Sequence.GetPrompt())/16*16), finish)
}

// logprobsOf makes a token the likeliest, and those after it in the vocabulary less and less likely.
func logprobsOf(id uint32, top uint32) *messages.TokenLogprobs {
	l := &messages.TokenLogprobs{Logprob: -0.5}
	for i := range top {
		l.Top = append(l.Top, &messages.TokenLogprob{Token: id + i, Logprob: -0.5 * float32(i+1)})
	}
	return l
}

// rest lets time pass, and reports whether the session goes on.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// silent is a session that never says anything.
func silent(ctx context.Context, _ *gateway.Call) { <-ctx.Done() }

// directory is what is deployed, as the test says.
type directory struct {
	mu  sync.Mutex
	all []*messages.DeploymentStatus
	err error
}

func (d *directory) add(s *messages.DeploymentStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, s)
}

// replace takes a newer revision of a deployment.
func (d *directory) replace(s *messages.DeploymentStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.all {
		if d.all[i].GetSpec().GetName() == s.GetSpec().GetName() {
			d.all[i] = s
		}
	}
}

func (d *directory) Deployments(context.Context) ([]*messages.DeploymentStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*messages.DeploymentStatus(nil), d.all...), d.err
}

func (d *directory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	all, err := d.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.GetSpec().GetName() == name {
			return s, nil
		}
	}
	return nil, refusal{&messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: fmt.Sprintf("model %q is not deployed", name)}}
}

// refusal is a refusal as an error.
type refusal struct{ *messages.Refused }

func (r refusal) Error() string { return r.GetDetail() }

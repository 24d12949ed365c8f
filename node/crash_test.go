package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/node"
	"troupe/testkit"
)

const streams = 32

// run sends 32 sampled requests at once and returns what each got.
func run(t *testing.T, n *node.Node) []string {
	t.Helper()
	texts := make([]string, streams)
	var wait sync.WaitGroup
	for i := range texts {
		wait.Go(func() {
			status, body := post(t, n, "/v1/completions", map[string]any{
				"model": "kjv", "prompt": fmt.Sprintf("And it came to pass in the year %d, that", i), "max_tokens": 40,
				"temperature": 0.9, "seed": i, "repetition_penalty": 1.1, "ignore_eos": true,
			})
			var c completion
			if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
				t.Errorf("stream %d: %d %s", i, status, body)
				return
			}
			if texts[i] = c.Choices[0].Text; c.Usage.CompletionTokens != 40 {
				t.Errorf("stream %d: %d tokens", i, c.Usage.CompletionTokens)
			}
		})
	}
	wait.Wait()
	return texts
}

// TestCrashesLoseNoToken: whichever actor crashes while 32 streams run, each stream has exactly the tokens of an undisturbed
// run, and the weights are not read again.
func TestCrashesLoseNoToken(t *testing.T) {
	wire := func(_ string, p *actor.Props) *actor.Props {
		return p.Configure(actor.WithReceiverMiddleware(testkit.Wire))
	}
	want := run(t, start(t, func(c *node.Config) { c.Wrap = wire }))
	if t.Failed() || slices.ContainsFunc(want, func(s string) bool { return strings.TrimSpace(s) == "" }) {
		t.Fatalf("the undisturbed run failed: %q", want)
	}
	for _, tc := range []struct {
		kind  string
		crash *testkit.Crash
	}{
		{"engine", &testkit.Crash{On: "*messages.RunStep", After: 5, Times: 1}},
		{"engine", &testkit.Crash{On: "*replica.stepDone", After: 7, Times: 1}},
		{"replica", &testkit.Crash{On: "*messages.RunStepResult", After: 6, Times: 1}},
		{"replica", &testkit.Crash{On: "*messages.SubmitSequence", After: 9, Times: 1}},
		{"replica", &testkit.Crash{On: "*messages.RunStepResult", After: 4, Times: 3}},
		{"router", &testkit.Crash{On: "*messages.RouteSequence", After: 3, Times: 2}},
		{"router", &testkit.Crash{On: "*messages.ReplicaAnnounced", After: 1, Times: 1}},
		{"deployment", &testkit.Crash{On: "*messages.ReplicaChanged", After: 1, Times: 2}},
		{"deployments", &testkit.Crash{On: "*messages.GetDesired", After: 1, Times: 1}},
		{"gpu", &testkit.Crash{On: "*messages.GetGpu", After: 2, Times: 1}},
		{"hbm", &testkit.Crash{On: "*messages.BlocksChanged", After: 3, Times: 1}},
		{"session", &testkit.Crash{On: "*messages.TokensEmitted", After: 50, Times: 3}},
		{"session", &testkit.Crash{On: "*messages.RouteSequenceResult", After: 5, Times: 1}},
		{"gateway", &testkit.Crash{On: "*messages.OpenSession", After: 20, Times: 1}},
	} {
		t.Run(tc.kind+" on "+tc.crash.On, func(t *testing.T) {
			var armed atomic.Bool
			armed.Store(tc.kind != "gpu") // one that crashes while it loads, loads again
			n := start(t, func(c *node.Config) {
				c.Wrap = func(kind string, p *actor.Props) *actor.Props {
					if kind == tc.kind {
						p.Configure(actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
							crash := tc.crash.Middleware(next)
							return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
								if armed.Load() {
									crash(ctx, env)
								} else {
									next(ctx, env)
								}
							}
						}))
					}
					return wire(kind, p)
				}
			})
			armed.Store(true)
			done := make(chan struct{})
			go func() { // some of the crashes need somebody to ask
				defer close(done)
				for range 10 {
					_, _ = n.Gpus(t.Context())
					_, _ = n.Deployments(t.Context())
				}
			}()
			got := run(t, n)
			<-done
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
				}
			}
			if tc.crash.Crashed() < tc.crash.Times {
				t.Errorf("it crashed %d times, not %d", tc.crash.Crashed(), tc.crash.Times)
			}
			loads := 0
			for _, h := range n.Holders() {
				loads += h.Loads()
			}
			if loads != 1 {
				t.Errorf("weights were read %d times", loads)
			}
		})
	}
}

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

// wired returns middleware that copies every message, as sending it to another node would. The
// transfers of a replica are left out: its commands to them carry functions, and both are always on
// one node.
func wired(kind string) []actor.ReceiverMiddleware {
	if kind == "transfers" {
		return nil
	}
	return []actor.ReceiverMiddleware{testkit.Wire}
}

// wiredWith is like wired, but runs middleware m before it for actors of one kind.
func wiredWith(kind string, m actor.ReceiverMiddleware) func(string) []actor.ReceiverMiddleware {
	return func(of string) []actor.ReceiverMiddleware {
		if of == kind {
			return append([]actor.ReceiverMiddleware{m}, wired(of)...)
		}
		return wired(of)
	}
}

// completeStreams sends 32 sampled requests of 40 tokens at once and returns their texts.
func completeStreams(t *testing.T, n *node.Node) []string {
	t.Helper()
	return completeMany(t, n, streams, 40)
}

// completeMany sends sampled requests at once and returns their texts.
func completeMany(t *testing.T, n *node.Node, many, tokens int) []string {
	t.Helper()
	texts := make([]string, many)
	var wait sync.WaitGroup
	for i := range texts {
		wait.Go(func() {
			status, body := post(t, n, "/v1/completions", map[string]any{
				"model": "kjv", "prompt": fmt.Sprintf("And it came to pass in the year %d, that", i),
				"max_tokens": tokens, "temperature": 0.9, "seed": i, "repetition_penalty": 1.1, "ignore_eos": true,
			})
			var c completion
			if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
				t.Errorf("stream %d: %d %s", i, status, body)
				return
			}
			if texts[i] = c.Choices[0].Text; c.Usage.CompletionTokens != tokens {
				t.Errorf("stream %d: %d tokens", i, c.Usage.CompletionTokens)
			}
		})
	}
	wait.Wait()
	return texts
}

var undisturbed struct {
	sync.Once
	texts []string
}

// undisturbedStreams returns what completeStreams returns on a node with the light model on which nothing
// happens. The texts are computed once for all tests that compare with them.
func undisturbedStreams(t *testing.T) []string {
	t.Helper()
	undisturbed.Do(func() {
		if texts := completeStreams(t, start(t, withLight(t))); !t.Failed() {
			undisturbed.texts = texts
		}
	})
	if len(undisturbed.texts) != streams || slices.Contains(undisturbed.texts, "") {
		t.Fatalf("the undisturbed run failed: %q", undisturbed.texts)
	}
	return undisturbed.texts
}

// TestCrashesLoseNoToken checks that each of several streams gets the tokens of an undisturbed run
// when an actor crashes, and that the weights are not loaded again. testkit/dst crashes actors in
// any order and number; this test adds the real engine and the gateway.
func TestCrashesLoseNoToken(t *testing.T) {
	const many, tokens = 8, 20 // more streams only make steps larger
	want := completeMany(t, start(t, withLight(t, func(c *node.Config) { c.Middleware = wired })), many, tokens)
	if t.Failed() || slices.ContainsFunc(want, func(s string) bool { return strings.TrimSpace(s) == "" }) {
		t.Fatalf("the undisturbed run failed: %q", want)
	}
	for _, tc := range []struct {
		kind  string
		crash *testkit.Crash
	}{
		{"engine", &testkit.Crash{On: "*messages.RunStep", After: 5, Times: 1}},
		{"engine", &testkit.Crash{On: "*stepper.stepDone", After: 7, Times: 1}},
		{"replica", &testkit.Crash{On: "*messages.RunStepResult", After: 4, Times: 3}},
		{"router", &testkit.Crash{On: "*messages.RouteSequence", After: 3, Times: 2}},
		{"deployment", &testkit.Crash{On: "*messages.ReplicaChanged", After: 1, Times: 2}},
		{"deployments", &testkit.Crash{On: "*messages.GetDeploymentSpec", After: 1, Times: 1}},
		{"gpu", &testkit.Crash{On: "*messages.GetGpu", After: 2, Times: 1}},
		{"session", &testkit.Crash{On: "*messages.TokensEmitted", After: 50, Times: 3}},
		{"gateway", &testkit.Crash{On: "*messages.OpenSession", After: 5, Times: 1}},
	} {
		t.Run(tc.kind+" on "+tc.crash.On, func(t *testing.T) {
			var armed atomic.Bool
			armed.Store(tc.kind != "gpu") // a gpu that crashes during a load loads again
			n := start(t, withLight(t, func(c *node.Config) {
				c.Middleware = wiredWith(tc.kind, func(next actor.ReceiverFunc) actor.ReceiverFunc {
					crash := tc.crash.Middleware(next)
					return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
						if armed.Load() {
							crash(ctx, env)
						} else {
							next(ctx, env)
						}
					}
				})
			}))
			armed.Store(true)
			done := make(chan struct{})
			go func() { // some of the crashes need these queries
				defer close(done)
				for range 10 {
					_, _ = n.Status().LocalGPUs(t.Context())
					_, _ = n.Backend().Deployments(t.Context())
				}
			}()
			got := completeMany(t, n, many, tokens)
			<-done
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
				}
			}
			waitFor(t, fmt.Sprint(tc.crash.Times, " crashes"), func() bool {
				return tc.crash.Crashed() >= tc.crash.Times
			})
			loads := 0
			for _, h := range n.Residency() {
				loads += h.Loads()
			}
			if loads != 1 {
				t.Errorf("weights were loaded %d times", loads)
			}
		})
	}
}

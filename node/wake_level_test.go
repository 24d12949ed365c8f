package node_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// in returns whether the model has a state.
func in(t *testing.T, n *node.Node, state messages.DeploymentState) func() bool {
	t.Helper()
	return func() bool { return status(t, n, "kjv").GetState() == state }
}

// TestRequestsWakeLevels checks that a request wakes a model that an operator has parked, even if its
// folder is gone, or put on standby, with the same output, and only if its minimum is 0.
func TestRequestsWakeLevels(t *testing.T) {
	dir := copyOfModel(t)
	n := start(t, func(c *node.Config) {
		asleep(func(s *messages.DeploymentSpec) { s.Path, s.Replicas = dir, new(uint32(1)) })(c)
		c.WeightsHostBytes = 64 << 20
	})
	conn := connect(t, n)
	events := recordEvents(t, conn, "troupe.v1.events.>")
	want, ok := greedyText(t, n)
	if !ok {
		t.Fatal(want)
	}
	park(t, conn)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("parked: %q, want %q", got, want)
	}
	if s := status(t, n, "kjv"); s.GetSpec().Held() || s.GetSpec().GetReplicas() != 1 {
		t.Errorf("%v", s)
	}
	waitFor(t, "the events", func() bool {
		return events.have("requests wait for it") && events.have("from host cache")
	})

	answer[messages.StandbyModelResponse](t, conn, "troupe.v1.models.standby", `{"name": "kjv"}`)
	waitFor(t, "the level standby", in(t, n, messages.DeploymentState_DEPLOYMENT_STATE_STANDBY))
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("standby: %q, want %q", got, want)
	}

	// One that is asleep is parked, and activated or woken again.
	for _, wake := range []func(){
		func() {
			answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
		},
		func() {},
	} {
		answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name": "kjv", "replicas": 0}`)
		waitFor(t, "a sleeping model", func() bool {
			return in(t, n, messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP)() && replica(t, n, "kjv") == nil
		})
		park(t, conn)
		waitFor(t, "its pinned image", func() bool {
			cache, weights := hostCache(t, conn)
			return cache.GetPinnedBytes() > 0 && len(weights) == 0
		})
		wake()
		if got, ok := greedyText(t, n); !ok || got != want {
			t.Errorf("asleep and parked: %q, want %q", got, want)
		}
	}

	answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "kjv", "minReplicas": 1}}`)
	answer[messages.StandbyModelResponse](t, conn, "troupe.v1.models.standby", `{"name": "kjv"}`)
	waitFor(t, "the level standby", in(t, n, messages.DeploymentState_DEPLOYMENT_STATE_STANDBY))
	ask := map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 4, "temperature": 0}
	if code, body := post(t, n, "/v1/completions", ask); code != http.StatusServiceUnavailable ||
		!strings.Contains(string(body), "at level standby; models.activate") {
		t.Errorf("%d %s", code, body)
	}
	ask["wait"] = true
	served := make(chan completion)
	go func() { served <- complete(t, n, ask) }()
	waitFor(t, "a waiting request", func() bool { return status(t, n, "kjv").GetWaitingToWake() == 1 })
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
	if c := <-served; c.Usage.CompletionTokens != 4 {
		t.Errorf("%+v", c)
	}
}

// TestIdleModelIsParked checks that a model that goes to sleep leaves the GPU if its weights fit the
// host cache, that a request wakes it though its folder is gone, and that otherwise its weights stay on
// the GPU, with the reason in an event.
func TestIdleModelIsParked(t *testing.T) {
	for name, tc := range map[string]struct {
		cache  int64
		parked bool
		event  string
	}{
		"parked":        {64 << 20, true, "weights.parked"},
		"no room":       {1 << 20, false, "no room for an image"},
		"no host cache": {0, false, "no host cache"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOfModel(t)
			n := start(t, func(c *node.Config) {
				asleep(func(s *messages.DeploymentSpec) {
					s.Path, s.Replicas, s.IdleAfter = dir, new(uint32(1)), new(uint32(2))
				})(c)
				c.WeightsHostBytes = tc.cache
			})
			conn := connect(t, n)
			events := recordEvents(t, conn, "troupe.v1.events.weights.>")
			want, ok := greedyText(t, n)
			if !ok {
				t.Fatal(want)
			}
			waitFor(t, "the event of a sleeping model", func() bool {
				return in(t, n, messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP)() && events.have(tc.event)
			})
			waitFor(t, "its weights to be parked or on the GPU", func() bool {
				_, weights := hostCache(t, conn)
				return (len(weights) == 0) == tc.parked
			})
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if got, ok := greedyText(t, n); !ok || got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

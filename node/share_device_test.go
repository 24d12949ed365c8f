package node_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/core/schedule"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// shared is a device with room for one of two models that are asleep. Pages of adapters make them large.
func shared(residence time.Duration, change func(first, second *messages.DeploymentSpec)) func(*node.Config) {
	return func(c *node.Config) {
		c.Devices = []host.Config{{MemoryBytes: 256 << 20}}
		c.Planning = schedule.Options{Residence: residence, ResidenceLoads: 0.01}
		c.Deployments = nil
		for _, name := range []string{"kjv", "web"} {
			c.Deployments = append(c.Deployments, &messages.DeploymentSpec{
				Name: name, Path: testkit.Model(), AdapterPages: new(uint32(60)), MaxSequences: new(uint32(4)),
				Replicas: new(uint32(0)), MinReplicas: new(uint32(0)), MaxReplicas: new(uint32(1)),
			})
		}
		if change != nil {
			change(c.Deployments[0], c.Deployments[1])
		}
	}
}

// TestModelsShareDevice checks that two models that do not fit together take turns on a device while both have
// requests: all of them are served, and a model stays for its residence.
func TestModelsShareDevice(t *testing.T) {
	t.Parallel()
	const residence, turns = time.Second, 6
	n := start(t, withLight(t, shared(residence, nil), func(c *node.Config) { c.Middleware = paced }))
	plans := recordEvents(t, connect(t, n), "troupe.v1.events.planner.planned")
	placed := func() (all int) {
		for _, e := range plans.all() {
			all += strings.Count(e, "add ")
		}
		return all
	}
	began := time.Now()
	var clients sync.WaitGroup
	var served [2]atomic.Int32
	var failed atomic.Bool
	for i, model := range []string{"kjv", "web"} {
		for range 2 {
			clients.Go(func() {
				for placed() < turns && !failed.Load() {
					code, body := post(t, n, "/v1/completions", map[string]any{"model": model, "prompt": "And",
						"max_tokens": 4, "temperature": 0, "ignore_eos": true})
					if code != http.StatusOK {
						t.Errorf("%s: %d %s", model, code, body)
						failed.Store(true)
						return
					}
					served[i].Add(1)
				}
			})
		}
	}
	clients.Wait()
	took := time.Since(began)
	if switches := placed() - 1; took < time.Duration(switches-1)*residence {
		t.Errorf("%d switches in %s, and a model stays for %s", switches, took, residence)
	}
	if served[0].Load() < turns || served[1].Load() < turns {
		t.Errorf("%d and %d requests served", served[0].Load(), served[1].Load())
	}
}

// TestPinnedModelStays checks that a request for the place of a pinned model is refused at once, and why.
func TestPinnedModelStays(t *testing.T) {
	t.Parallel()
	n := start(t, shared(time.Millisecond, func(first, _ *messages.DeploymentSpec) { first.Pinned = new(true) }))
	ask := map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 4, "temperature": 0}
	complete(t, n, ask)
	ask["model"] = "web"
	began := time.Now()
	code, body := post(t, n, "/v1/completions", ask)
	if code != http.StatusServiceUnavailable || !strings.Contains(string(body), "kjv-0 is pinned to test/gpu-0") {
		t.Errorf("%d %s", code, body)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("refused after %s", took)
	}
	ask["model"] = "kjv"
	complete(t, n, ask)
}

// TestHoldEnds checks that a model that was parked for a time serves again after it, without a command.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	conn := connect(t, n)
	events := recordEvents(t, conn, "troupe.v1.events.model.released")
	answer[messages.ParkModelResponse](t, conn, "troupe.v1.models.park", `{"name": "kjv", "hold": "3s"}`)
	if d := status(t, n, "kjv"); !d.GetSpec().Held() {
		t.Errorf("%v", d)
	}
	waitFor(t, "the end of the hold", func() bool { return events.have("models.park") })
	waitFor(t, "a replica that serves", func() bool {
		d := status(t, n, "kjv")
		return !d.GetSpec().Held() && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
	})
	if text, ok := greedyText(t, n); !ok {
		t.Error(text)
	}
}

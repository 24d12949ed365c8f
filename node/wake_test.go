package node_test

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sashabaranov/go-openai"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// asleep is the shipped model, deployed asleep.
func asleep(change func(*messages.DeploymentSpec)) func(*node.Config) {
	return func(c *node.Config) {
		s := c.Deployments[0]
		s.Replicas, s.MinReplicas, s.MaxReplicas = new(uint32(0)), new(uint32(0)), new(uint32(1))
		if c.Devices = []host.Config{{MemoryBytes: 256 << 20}}; change != nil {
			change(s)
		}
	}
}

// loads records the names of the replicas that load a model, and can hold the loads.
type loads struct {
	mu    sync.Mutex
	names map[string]bool
	held  chan struct{} // nil: loads are not held
}

func (l *loads) middleware(kind string) []actor.ReceiverMiddleware {
	if kind != "gpu" {
		return nil
	}
	return []actor.ReceiverMiddleware{func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if m, ok := env.Message.(*messages.LoadModel); ok {
				l.mu.Lock()
				l.names[m.GetLease()] = true
				l.mu.Unlock()
				if l.held != nil {
					<-l.held
				}
			}
			next(ctx, env)
		}
	}}
}

func (l *loads) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.names)
}

// status returns the status of a deployment.
func status(t *testing.T, n *node.Node, name string) *messages.DeploymentStatus {
	t.Helper()
	d, err := n.Backend().Deployment(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRequestsWakeModel checks that requests to a model that is asleep are served after one load,
// that the status and the metrics count those that wait and the wake, and that a model that an operator
// stopped stays so.
func TestRequestsWakeModel(t *testing.T) {
	l := &loads{names: map[string]bool{}, held: make(chan struct{})}
	n := start(t, func(c *node.Config) {
		asleep(nil)(c)
		c.Middleware = l.middleware
	})
	waitFor(t, "the model to be asleep", func() bool {
		return status(t, n, "kjv").GetState() == messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP
	})
	cfg := openai.DefaultConfig("none")
	cfg.BaseURL = "http://" + n.HTTPAddr() + "/v1"
	client, golden := openai.NewClientWithConfig(cfg), goldens(t)[0]
	const many = 20
	var done sync.WaitGroup
	for range many {
		done.Go(func() {
			got, err := client.CreateCompletion(t.Context(), openai.CompletionRequest{
				Model: "kjv", Prompt: golden.Prompt, MaxTokens: len(golden.OutputIDs),
				Temperature: math.SmallestNonzeroFloat32, // 0 is left out
			})
			if err != nil || got.Choices[0].Text != golden.Text {
				t.Errorf("%v, %v; want %q", got.Choices, err, golden.Text)
			}
		})
	}
	waitFor(t, "20 waiting requests", func() bool {
		s := status(t, n, "kjv")
		return s.GetWaitingToWake() == many && s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_WAKING
	})
	metrics := func(want ...string) {
		t.Helper()
		for _, line := range want {
			waitFor(t, line, func() bool { return strings.Contains(scrape(t, n), line+"\n") })
		}
	}
	metrics(`troupe_model_waiting_requests{model="kjv"} 20`, `troupe_model_wakes_total{model="kjv"} 1`)
	close(l.held)
	done.Wait()
	if l.count() != 1 {
		t.Errorf("%d replicas were loaded for %d requests", l.count(), many)
	}
	waitFor(t, "no waiting request", func() bool {
		s := status(t, n, "kjv")
		return s.GetWaitingToWake() == 0 && s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
	})
	metrics(`troupe_model_waiting_requests{model="kjv"} 0`, `troupe_model_wakes_total{model="kjv"} 1`,
		`troupe_model_wake_seconds_count{model="kjv"} 1`)

	conn := connect(t, n)
	answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "kjv", "minReplicas": 1}}`)
	answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name": "kjv", "replicas": 0}`)
	waitFor(t, "no replica", func() bool { return replica(t, n, "kjv") == nil })
	code, body := post(t, n, "/v1/completions", map[string]any{"model": "kjv", "prompt": "a"})
	if code != http.StatusServiceUnavailable || !strings.Contains(string(body), `"code":"model_stopped"`) ||
		!strings.Contains(string(body), "models.scale") {
		t.Errorf("%d %s", code, body)
	}
}

// TestNoRoomToWake checks that a request to a model without room is refused with the figures, that
// one with wait waits for room until its deadline, and that the model sleeps again when no request
// waits.
func TestNoRoomToWake(t *testing.T) {
	n := start(t, func(c *node.Config) {
		asleep(nil)(c)
		c.Deployments = append(c.Deployments, &messages.DeploymentSpec{
			Name: "large", Path: testkit.Model(), AdapterPages: new(uint32(82)), MaxSequences: new(uint32(1)),
		})
	})
	ask := map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 4, "temperature": 0}
	code, body := post(t, n, "/v1/completions", ask)
	if code != http.StatusServiceUnavailable || !strings.Contains(string(body), `"memory":{"bytes":`) ||
		!strings.Contains(string(body), "short of memory") {
		t.Errorf("%d %s", code, body)
	}
	var refused struct {
		Error struct {
			Memory struct {
				Device string
				Leave  []struct {
					Model, Command string
					Replicas       []string
					Bytes          int64
				}
			}
		}
	}
	if err := json.Unmarshal(body, &refused); err != nil {
		t.Fatal(err)
	}
	m := refused.Error.Memory
	if len(m.Leave) != 1 || m.Leave[0].Model != "large" || !slices.Equal(m.Leave[0].Replicas, []string{"large-0"}) ||
		m.Device == "" || m.Leave[0].Bytes < 82*2<<20 || m.Leave[0].Command != `models.park {"name": "large"}` ||
		!strings.Contains(string(body), "large (large-0, ") {
		t.Errorf("%s", body)
	}
	why := status(t, n, "kjv").GetFailure().GetMemory()
	if len(why.GetLeave()) != 1 || why.GetDevice() != m.Device || why.GetLeave()[0].GetCommand() != m.Leave[0].Command {
		t.Errorf("%v", why)
	}
	ask["wait"], ask["timeout"] = true, 1
	if code, body = post(t, n, "/v1/completions", ask); code != http.StatusGatewayTimeout {
		t.Errorf("%d %s", code, body)
	}
	ask["timeout"] = 60
	served := make(chan completion)
	go func() { served <- complete(t, n, ask) }()
	waitFor(t, "a waiting request", func() bool { return status(t, n, "kjv").GetWaitingToWake() == 1 })
	subject, arguments, _ := strings.Cut(m.Leave[0].Command, " ") // the remedy that the refusal names
	answer[messages.ParkModelResponse](t, connect(t, n), "troupe.v1."+subject, arguments)
	select {
	case c := <-served:
		if c.Usage.CompletionTokens != 4 {
			t.Errorf("%+v", c)
		}
	case <-time.After(time.Minute):
		t.Error("the request was not served")
	}
}

// TestIdleModelSleeps checks that a model sleeps after idle_after without a request, with its
// weights on the device, that it counts as ready then, and that the next request wakes it.
func TestIdleModelSleeps(t *testing.T) {
	n := start(t, func(c *node.Config) {
		asleep(func(s *messages.DeploymentSpec) { s.Replicas, s.IdleAfter = new(uint32(1)), new(uint32(2)) })(c)
	})
	ask := map[string]any{"model": "kjv", "prompt": "In the beginning", "max_tokens": 8, "temperature": 0}
	want := complete(t, n, ask).Choices[0].Text
	for range 2 {
		waitFor(t, "a sleeping model", func() bool {
			return status(t, n, "kjv").GetState() == messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP &&
				replica(t, n, "kjv") == nil
		})
		if code := getStatus(t, n, "/ready?model=kjv"); code != http.StatusOK {
			t.Errorf("/ready: %d", code)
		}
		if got := complete(t, n, ask).Choices[0].Text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit/models"
)

// switchWorld is a node with one device and two models: kjv serves, and other is stopped.
type switchWorld struct {
	*testing.T
	n      *node.Node
	conn   *nats.Conn
	device *phased
	texts  map[string]string // what each model answers
	long   string            // what kjv answers with 400 tokens; holdStream asks for it first
}

func newSwitchWorld(t *testing.T) *switchWorld {
	t.Helper()
	w := &switchWorld{T: t, device: openPhased(t), texts: make(map[string]string)}
	other := filepath.Join(t.TempDir(), "other")
	light := lightModel(t)
	if err := models.Perturb(light, other, 7); err != nil {
		t.Fatal(err)
	}
	w.n = start(t, func(c *node.Config) {
		c.GPUs, c.Devices, c.Middleware = []node.GPU{w.device.GPU()}, nil, w.device.parties.middleware
		c.Deployments[0].Path = light
		c.Deployments = append(c.Deployments, &messages.DeploymentSpec{Name: "other", Path: other})
		for _, d := range c.Deployments {
			d.MaxSequences = new(uint32(16))
		}
	})
	w.conn = connect(t, w.n)
	for _, model := range []string{"kjv", "other"} {
		w.serve(model)
		w.texts[model] = w.complete(model)
	}
	if w.texts["kjv"] == w.texts["other"] {
		t.Fatal("both models answer the same")
	}
	return w
}

func (w *switchWorld) gpu() *messages.GpuStatus {
	w.Helper()
	return answer[messages.ListGpusResponse](w.T, w.conn, "troupe.v1.gpus.list", `{}`).GetGpus()[0]
}

func (w *switchWorld) serve(model string) {
	w.Helper()
	waitFor(w.T, model, func() bool {
		r := replica(w.T, w.n, model)
		return r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING
	})
}

func (w *switchWorld) complete(model string) string {
	w.Helper()
	return complete(w.T, w.n, greedy(model, 12)).Choices[0].Text
}

func greedy(model string, tokens int) map[string]any {
	return map[string]any{"model": model, "prompt": "And he said", "max_tokens": tokens, "ignore_eos": true,
		"temperature": 0}
}

func (w *switchWorld) scale(model string, replicas int) {
	w.Helper()
	answer[messages.ScaleModelResponse](w.T, w.conn, "troupe.v1.models.scale",
		fmt.Sprintf(`{"name": %q, "replicas": %d, "drop": %t}`, model, replicas, replicas == 0))
}

// stopOther frees the weights of the model that comes, so that the next switch loads them.
func (w *switchWorld) stopOther() {
	w.Helper()
	w.scale("other", 0)
	waitFor(w.T, "no weights of other", func() bool { return len(w.gpu().GetWeights()) == 1 })
}

// to switches the device, and returns where the answer goes.
func (w *switchWorld) to(model string) *nats.Subscription {
	w.Helper()
	inbox, err := w.conn.SubscribeSync(w.conn.NewInbox())
	if err != nil {
		w.Fatal(err)
	}
	command := fmt.Sprintf(`{"node": "test", "name": "gpu-0", "to": %q}`, model)
	if err := w.conn.PublishRequest("troupe.v1.gpus.switch", inbox.Subject, []byte(command)); err != nil {
		w.Fatal(err)
	}
	return inbox
}

// ended waits for the end of a switch. One that was lost in a crash of the actor of the device is
// repeated, as its answer says.
func (w *switchWorld) ended(inbox *nats.Subscription, model string, crashed string) *messages.GpuSwitch {
	w.Helper()
	m, err := inbox.NextMsg(time.Minute)
	if err != nil {
		w.Fatal(err)
	}
	lost := strings.Contains(string(m.Data), "has restarted during the switch; repeat it")
	if lost != (crashed == "gpu") {
		w.Errorf("after a crash of %q: %s", crashed, m.Data)
	}
	if lost {
		if m, err = w.to(model).NextMsg(time.Minute); err != nil {
			w.Fatal(err)
		}
	}
	if text := m.Header.Get("Nats-Service-Error"); text != "" {
		w.Fatalf("the switch after a crash of %q: %s", crashed, text)
	}
	return w.gpu().GetSwitch()
}

// TestSwitchHeldInEachPhase holds a device in each phase of a switch, where gpus.list shows it, and
// crashes each party there. The switch ends, or is lost with the actor of the device and repeated; both
// models then answer as before, and no memory is lost.
func TestSwitchHeldInEachPhase(t *testing.T) {
	for _, phase := range []struct {
		state   messages.GpuState
		waits   string
		hold    func(*switchWorld) (release func())
		loads   bool // other is loaded in the switch
		parties []string
	}{
		{messages.GpuState_GPU_STATE_DRAINING, "kjv-0", (*switchWorld).holdStream, false,
			[]string{"gpu", "replica kjv-0", "engine kjv-0"}},
		{messages.GpuState_GPU_STATE_FREEING, "kjv-0", (*switchWorld).holdMemory, false,
			[]string{"gpu", "replica kjv-0", "engine kjv-0"}},
		{messages.GpuState_GPU_STATE_LOADING, "other-0", (*switchWorld).holdLoads, true,
			[]string{"gpu", "replica other-0"}},
		{messages.GpuState_GPU_STATE_CAPTURING, "other-0", (*switchWorld).holdCaptures, true,
			[]string{"gpu", "replica other-0", "engine other-0"}},
	} {
		t.Run(strings.ToLower(strings.TrimPrefix(phase.state.String(), "GPU_STATE_")), func(t *testing.T) {
			w := newSwitchWorld(t)
			for _, crashed := range append([]string{""}, phase.parties...) {
				if phase.loads {
					w.stopOther()
				}
				captured := w.device.captured.Load()
				release := phase.hold(w)
				t.Cleanup(release)
				if phase.loads {
					w.scale("other", 1)
					waitFor(t, "the replica", func() bool { return replica(t, w.n, "other") != nil })
				}
				inbox := w.to("other")
				waitFor(t, phase.state.String(), func() bool {
					d := w.gpu()
					return d.GetState() == phase.state && fmt.Sprint(d.GetSwitch().GetWaitsFor()) == "["+phase.waits+"]"
				})
				again := func() bool { return true }
				if crashed != "" {
					again = w.device.parties.crash(t, crashed)
				}
				if crashed == "gpu" {
					waitFor(t, "the actor of the device", again)
				}
				release()
				waitFor(t, "a restart of "+crashed, again)
				m := w.ended(inbox, "other", crashed).GetMetrics()
				if phase.loads && crashed == "" && (m.GetGraphs() != 10 || m.Graph == nil ||
					m.GetBytes() == 0 && phase.state == messages.GpuState_GPU_STATE_LOADING) {
					t.Errorf("metrics of a switch with a load: %v", m)
				}
				if !phase.loads && crashed == "" && (m.GetGraphs() != 0 || m.Graph != nil || m.GetBytes() != 0) {
					t.Errorf("metrics of a switch to standby: %v", m)
				}
				w.back()
				switch n := w.device.captured.Load() - captured; {
				case !phase.loads && crashed == "" && n != 0:
					t.Errorf("a switch to standby and back captured %d graphs", n)
				case phase.loads && n < 10:
					t.Errorf("a switch with a load captured %d graphs", n)
				}
			}
			for _, model := range []string{"kjv", "other"} {
				answer[messages.DeleteModelResponse](t, w.conn, "troupe.v1.models.delete",
					`{"name": "`+model+`", "drop": true}`)
			}
			waitFor(t, "all memory", func() bool {
				free, total := w.device.Memory()
				return free == total
			})
		})
	}
}

// holdStream holds the steps of the device while kjv computes a sequence that has output.
func (w *switchWorld) holdStream() (release func()) {
	if w.long == "" {
		w.long = complete(w.T, w.n, greedy("kjv", 400)).Choices[0].Text
	}
	w.device.free.Store(20) // steps, of which each launches a graph
	done := make(chan string, 1)
	go func() {
		status, body := post(w.T, w.n, "/v1/completions", greedy("kjv", 400))
		var c completion
		if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
			done <- fmt.Sprintf("%d %s", status, body)
			return
		}
		done <- c.Choices[0].Text
	}()
	<-w.device.held
	return sync.OnceFunc(func() {
		w.device.hold.Unlock()
		if text := <-done; text != w.long {
			w.Errorf("the sequence that ran during the switch: %q, want %q", text, w.long)
		}
	})
}

func (w *switchWorld) holdMemory() func()   { return w.device.parties.deafen() }
func (w *switchWorld) holdLoads() func()    { return w.device.loads.hold() }
func (w *switchWorld) holdCaptures() func() { return w.device.captures.hold() }

// back lets both models serve again, and compares their answers.
func (w *switchWorld) back() {
	w.Helper()
	for _, model := range []string{"kjv", "other"} {
		answer[messages.ActivateModelResponse](w.T, w.conn, "troupe.v1.models.activate", `{"name": "`+model+`"}`)
		w.serve(model)
		if text := w.complete(model); text != w.texts[model] {
			w.Errorf("%s answers %q, before %q", model, text, w.texts[model])
		}
	}
	r := replica(w.T, w.n, "kjv")
	least := r.GetKvBlockBytes() * 2 * 512 / uint64(r.GetBlockTokens()) // twice what it keeps on standby
	waitFor(w.T, "the KV memory of kjv", func() bool {
		for _, l := range w.gpu().GetLeases() {
			if l.GetOwner() == "kjv-0" && l.GetKind() == "kv" && l.GetBytes() > least {
				return true
			}
		}
		return false
	})
}

// TestFailedCaptureServes checks that a replica whose graphs cannot be captured serves without them, and
// that an event says so.
func TestFailedCaptureServes(t *testing.T) {
	w := newSwitchWorld(t)
	w.stopOther()
	events, err := w.conn.SubscribeSync("troupe.v1.events.>")
	if err != nil {
		t.Fatal(err)
	}
	w.device.refuses.Store(true)
	w.scale("other", 1)
	w.serve("other")
	if text := w.complete("other"); text != w.texts["other"] {
		t.Errorf("%q without graphs, %q with them", text, w.texts["other"])
	}
	waitFor(t, "the event", func() bool {
		m, err := events.NextMsg(time.Second)
		return err == nil && strings.HasSuffix(m.Subject, "replica.graphs_failed") &&
			strings.Contains(string(m.Data), "steps run without graphs: ") &&
			strings.Contains(string(m.Data), "no memory for graphs")
	})
	if m := replica(t, w.n, "other").GetLoad(); m.Graph != nil || m.GetGraphs() != 0 {
		t.Errorf("metrics without graphs: %v", m)
	}
	if m := replica(t, w.n, "kjv").GetLoad(); m.Graph == nil || m.GetGraphs() != 10 {
		t.Errorf("metrics with graphs: %v", m)
	}
}

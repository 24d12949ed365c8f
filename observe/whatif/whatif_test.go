package whatif

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/core/cost"
	"troupe/internal/costfile"
	"troupe/messages"
)

const gib = 1 << 30

// live returns a cluster with two simulated devices. One serves chat, which has the given requests per second.
func live(t *testing.T, rate float64) (Cluster, []cost.Profile) {
	t.Helper()
	h200, err := costfile.Read("h200")
	if err != nil {
		t.Fatal(err)
	}
	kind := h200.Device.Name + " (simulated)"
	gpu := func(name string) *messages.GpuStatus {
		return &messages.GpuStatus{Name: name, Product: kind, Engine: "simulated", MemoryBytes: 140 * gib,
			Budget: &messages.MemoryBudget{KvReserve: 14 * gib}}
	}
	lengths := func(n float64) *messages.Quantiles {
		return &messages.Quantiles{Count: 100, Mean: n, P50: n, P90: 1.5 * n, P99: 2 * n}
	}
	spec := (&messages.DeploymentSpec{Name: "chat", Path: "/models/chat", Replicas: new(uint32(1)),
		MinReplicas: new(uint32(1)), MaxReplicas: new(uint32(2)), MaxSequences: new(uint32(16)),
		Priority: messages.Priority_PRIORITY_HIGH.Enum(), Engine: &messages.EngineSpec{Kind: "simulated"}}).Complete()
	return Cluster{
		Nodes: []*messages.NodeStatus{{Member: &messages.Member{Name: "a"},
			Gpus: []*messages.GpuStatus{gpu("gpu-0"), gpu("gpu-1")}}},
		Models: []*messages.DeploymentStatus{{Spec: spec,
			Replicas: []*messages.ReplicaStatus{{Name: "chat-4", Node: "a", Gpu: "gpu-1"}},
			Demand: &messages.Demand{ArrivalsPerSecond: rate, PromptTokens: lengths(500),
				OutputTokens: lengths(200)}}},
		Sizes: map[string]*messages.ModelSizes{"chat": {WeightBytes: 16 * gib, KvTokenBytes: 128 << 10,
			ContextTokens: 8192}},
	}, []cost.Profile{h200}
}

// TestRun checks that nothing changes while the replica carries the load, that more requests lead to another one, and
// not with a lower limit.
func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		rate        float64
		set, demand []string
		replicas    int
		decisions   int
		text        []string
	}{
		"present": {1, nil, nil, 1, 0, []string{"Simulated: 3m0s", "would change nothing", "100.0%",
			"chat gets 1 requests/s",
			"as long as the facts of the device allow"}},
		"more": {1, nil, []string{"chat=25x"}, 2, 1, []string{"+ chat-0  a spike", "chat gets 25 requests/s"}},
		"more alone": {1, []string{"chat.max_replicas=1"}, []string{"chat=25/s"}, 1, 0,
			[]string{"would change nothing"}},
		"less": {1, []string{"chat.min_replicas=2", "chat.slo.ttft=1s"}, nil, 2, 1,
			[]string{"/ 1s", "at least 2"}},
		"three":  {1, []string{"chat.min_replicas=3", "chat.max_replicas=3"}, nil, 3, 2, []string{"at least 3"}},
		"steady": {10, nil, nil, 1, 0, []string{"would change nothing"}},
		"none":   {0, nil, nil, 1, 0, []string{"chat gets no requests"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, profiles := live(t, test.rate)
			r, err := Run(c, Options{For: 3 * time.Minute, Set: test.set, Demand: test.demand, Profiles: profiles})
			if err != nil {
				t.Fatal(err)
			}
			text := r.Text()
			if r.After["chat"] != test.replicas || len(r.Decisions) != test.decisions {
				t.Errorf("%d replicas, want %d; %s", r.After["chat"], test.replicas, text)
			}
			for _, part := range test.text {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in\n%s", part, text)
				}
			}
			if name != "more" {
				return
			}
			if again, err := Run(c, Options{For: 3 * time.Minute, Set: test.set, Demand: test.demand,
				Profiles: profiles}); err != nil || again.Text() != text {
				t.Errorf("another run differs: %v", err)
			}
			if max := c.Models[0].GetSpec().GetMaxReplicas(); max != 2 {
				t.Errorf("the cluster was changed: at most %d replicas", max)
			}
		})
	}
}

// TestRefused checks that a model without room is named with the reason.
func TestRefused(t *testing.T) {
	c, profiles := live(t, 1)
	big := proto.CloneOf(c.Models[0])
	big.Spec.Name, big.Replicas = "big", nil
	c.Models, c.Sizes["big"] = append(c.Models, big), &messages.ModelSizes{WeightBytes: 150 * gib,
		KvTokenBytes: 128 << 10, ContextTokens: 8192}
	r, err := Run(c, Options{For: time.Minute, Profiles: profiles})
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Text(); !strings.Contains(text, "big lacks 1: ") || len(r.Refused) != 1 {
		t.Error(text)
	}
}

// TestErrors checks that what is missing or wrong is named with its remedy.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Cluster, o *Options)
		want   string
	}{
		"costs": {func(c *Cluster, _ *Options) {
			for _, g := range c.Nodes[0].GetGpus() {
				g.Product, g.Engine = "NVIDIA L4", ""
			}
			c.Models[0].Spec.Engine = nil
		}, "no costs of model chat on NVIDIA L4; measure them there with troupe calibrate --model /models/chat"},
		"engines": {func(c *Cluster, _ *Options) { c.Models[0].Spec.Engine = nil },
			"no device runs engines of kind native"},
		"sizes": {func(c *Cluster, _ *Options) { c.Sizes = nil }, "no node has its folder /models/chat"},
		"model": {func(_ *Cluster, o *Options) { o.Set = []string{"x.replicas=1"} }, `no deployment "x"`},
		"field": {func(_ *Cluster, o *Options) { o.Set = []string{"chat.path=/x"} }, "the fields are min_replicas"},
		"limits": {func(_ *Cluster, o *Options) { o.Set = []string{"chat.min_replicas=3"} },
			"min_replicas 3 of chat is more than max_replicas 2"},
		"form": {func(_ *Cluster, o *Options) { o.Demand = []string{"chat=2"} }, "not of the form chat=2x"},
		"no rate": {func(c *Cluster, o *Options) {
			c.Models[0].Demand, o.Demand = nil, []string{"chat=2x"}
		}, "--demand chat=1.5/s"},
		"parked": {func(c *Cluster, _ *Options) { c.Models[0].Spec.Level = messages.Level_LEVEL_PARKED },
			"there is nothing to simulate"},
	} {
		c, profiles := live(t, 1)
		o := Options{For: time.Minute, Profiles: profiles}
		test.change(&c, &o)
		if _, err := Run(c, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestImpossibleDemand checks that a demand that cannot be is refused with the name of the figure.
func TestImpossibleDemand(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), -1, 1e300} {
		for name, set := range map[string]func(*messages.Demand){
			"arrivals_per_second": func(d *messages.Demand) { d.ArrivalsPerSecond = x },
			"prompt_tokens.p99":   func(d *messages.Demand) { d.PromptTokens.P99 = x },
			"output_tokens.mean":  func(d *messages.Demand) { d.OutputTokens.Mean = x },
		} {
			c, profiles := live(t, 1)
			set(c.Models[0].Demand)
			_, err := Run(c, Options{For: time.Minute, Profiles: profiles})
			if err == nil || !strings.Contains(err.Error(), "the demand of chat has "+name) {
				t.Errorf("%s %v: %v", name, x, err)
			}
		}
	}
}

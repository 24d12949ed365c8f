package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/cuda/simulated"
	"troupe/internal/costfile"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// simulatedSpec returns a deployment of simulated replicas of a model with the shape of Llama 3.1 8B.
func simulatedSpec(replicas uint32) *messages.DeploymentSpec {
	spec := kjvSpec(replicas)
	spec.Path = filepath.Join(testkit.Root(), "examples", "simulated", "shape-8b")
	spec.Engine = &messages.EngineSpec{Kind: "simulated"}
	return spec
}

// withSimulated adds simulated devices to a node.
func withSimulated(t *testing.T, count int) func(*node.Config) {
	profile, err := costfile.Read("h200")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *node.Config) {
		c.Deployments, c.Devices = nil, c.Devices[:1]
		for range count {
			c.SimulatedDevices = append(c.SimulatedDevices, simulated.Config{Profile: profile})
		}
	}
}

// TestSimulatedReplicas checks that simulated replicas are placed on simulated devices beside a native model, that
// they are labelled, and that sequences of a replica that leaves are computed again on the other, with the same
// tokens.
func TestSimulatedReplicas(t *testing.T) {
	t.Parallel()
	n := start(t, withSimulated(t, 2))
	native := kjvSpec(1)
	native.Name = "native"
	deploy(t, n, native)
	deploy(t, n, simulatedSpec(2))
	d, err := n.Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]bool{}
	for _, r := range d.GetReplicas() {
		on[r.GetGpu()] = r.GetBackend().GetKind() == "simulated"
	}
	if !on["gpu-1"] || !on["gpu-2"] {
		t.Errorf("simulated replicas are on %v", on)
	}
	if !slices.Contains(d.GetUnsupported(),
		"the simulated backend does not support migration of KV blocks (kv_migration)") {
		t.Errorf("unsupported: %v", d.GetUnsupported())
	}
	if d, err := n.Backend().Deployment(t.Context(), "native"); err != nil || d.GetReplicas()[0].GetGpu() != "gpu-0" ||
		d.GetReplicas()[0].GetBackend().GetKind() != "native" || len(d.GetUnsupported()) > 0 {
		t.Errorf("%v, %v", d, err)
	}

	ask := func(i int) string {
		status, body := post(t, n, "/v1/completions", map[string]any{"model": "kjv", "prompt": "In the beginning",
			"max_tokens": 300, "temperature": 0.9, "seed": i, "ignore_eos": true})
		var c completion
		if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
			t.Errorf("%d %s", status, body)
			return ""
		}
		return c.Choices[0].Text
	}
	const streams = 4
	want, got := make([]string, streams), make(chan string, streams)
	for i := range want {
		want[i] = ask(i)
	}
	for i := range streams {
		go func() { got <- ask(i) }()
	}
	waitFor(t, "streams on both replicas", func() bool {
		d, err := n.Backend().Deployment(t.Context(), "kjv")
		return err == nil && !slices.ContainsFunc(d.GetReplicas(), func(r *messages.ReplicaStatus) bool {
			return r.GetRunning() == 0
		})
	})
	if _, err := n.PutDeployment(t.Context(), simulatedSpec(1), 0); err != nil {
		t.Fatal(err)
	}
	for range streams {
		if text := <-got; !slices.Contains(want, text) {
			t.Errorf("got %q", text)
		}
	}
	res, err := http.Get("http://" + n.HTTPAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	body := string(all)
	for _, metric := range []string{`troupe_device_simulated{gpu="gpu-1"} 1`, `troupe_replica_simulated{model="kjv"`} {
		if !strings.Contains(body, metric) {
			t.Errorf("no metric %s", metric)
		}
	}
	for _, metric := range []string{`troupe_device_simulated{gpu="gpu-0"}`, `troupe_replica_simulated{model="native"`} {
		if strings.Contains(body, metric) {
			t.Errorf("metric %s of what is not simulated", metric)
		}
	}
}

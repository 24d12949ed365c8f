package cluster_test

import (
	"path/filepath"
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/cluster"
)

// simulatedSpec returns a deployment of simulated replicas of a model with the shape of Llama 3.1 8B.
func simulatedSpec(replicas int, without ...string) *messages.DeploymentSpec {
	spec := cluster.Spec(replicas)
	spec.Path = filepath.Join(testkit.Root(), "examples", "simulated", "shape-8b")
	spec.Engine = &messages.EngineSpec{Kind: "simulated", Without: without}
	return spec
}

// TestSimulatedStreamsSurviveKill kills a node with a simulated replica while streams run on it. They must get
// the tokens of an undisturbed run.
func TestSimulatedStreamsSurviveKill(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 2, NATS: cluster.External,
		Flags: []string{"--simulated-devices", "1xh200"}})
	if err := c.WaitMembers(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := c.Deploy(cluster.TestContext(t, time.Minute), simulatedSpec(2)); err != nil {
		t.Fatal(err)
	}
	requests := cluster.Requests(4, 1500)
	answers, err := c.Answers(cluster.TestContext(t, time.Minute), requests)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Model(t.Context(), cluster.ModelName)
	if err != nil {
		t.Fatal(err)
	}
	var killed *cluster.Node
	for _, r := range d.GetReplicas() {
		if r.GetBackend().GetKind() != "simulated" || r.GetGpu() != "gpu-1" {
			t.Errorf("replica %s on %s has the backend %v", r.GetName(), r.GetGpu(), r.GetBackend())
		}
		if r.GetNode() != c.Nodes[0].Name {
			killed = c.Node(r.GetNode())
		}
	}
	if killed == nil || d.GetReplicas()[0].GetNode() == d.GetReplicas()[1].GetNode() {
		t.Fatalf("replicas are not spread over the nodes: %v", d.GetReplicas())
	}
	load := cluster.Load{Gateways: c.LiveNodes(killed), Requests: requests, Answers: answers, Streams: len(requests)}
	run := load.Start(cluster.TestContext(t, time.Minute))
	until(t, "streams on the node to be killed", func() bool {
		d, err := c.Model(t.Context(), cluster.ModelName)
		for _, r := range d.GetReplicas() {
			if err == nil && r.GetNode() == killed.Name && r.GetRunning() > 0 {
				return true
			}
		}
		return false
	})
	if err := killed.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := run.Finish().Err(); err != nil {
		t.Error(err)
	}
}

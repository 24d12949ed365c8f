package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// startCluster starts nodes a, b, c and so on with one software GPU each, and waits until each knows all. The first
// one runs the NATS server that the others join.
func startCluster(t *testing.T, count int, change func(i int, c *node.Config)) []*node.Node {
	t.Helper()
	var nodes []*node.Node
	for i := range count {
		nodes = append(nodes, start(t, func(c *node.Config) {
			c.Name = string(rune('a' + i))
			c.Devices = []host.Config{{MemoryBytes: 256 << 20}}
			c.Deployments[0].Replicas = new(uint32(count))
			if i > 0 {
				c.Deployments, c.NATSListen, c.Join = nil, "", []string{nodes[0].NATSURL()}
			} else {
				c.Deployments = nil
			}
			if change != nil {
				change(i, c)
			}
		}))
	}
	for _, n := range nodes {
		waitFor(t, n.Member().GetName()+" to know all nodes", func() bool {
			return len(n.Backend().Members()) == count
		})
	}
	return nodes
}

// kjvSpec returns a deployment of the shipped model.
func kjvSpec(replicas uint32) *messages.DeploymentSpec {
	return &messages.DeploymentSpec{
		Name: "kjv", Path: testkit.Model(), Replicas: new(uint32(replicas)),
		MaxSequences: new(uint32(64)), MaxWaiting: new(uint32(1024)), StepTokens: new(uint32(512)),
		BlockTokens: new(uint32(16)),
		Priority:    messages.Priority_PRIORITY_STANDARD.Enum(),
	}
}

// deploy deploys a model and waits until it serves, as n and the others know it. A node knows of
// changes elsewhere a moment later.
func deploy(t *testing.T, n *node.Node, spec *messages.DeploymentSpec, others ...*node.Node) {
	t.Helper()
	if _, err := n.PutDeployment(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	for _, n := range append(others, n) {
		what := fmt.Sprintf("%d replicas of %s on %s", spec.GetReplicas(), spec.GetName(), n.Member().GetName())
		waitFor(t, what, func() bool {
			d, err := n.Backend().Deployment(t.Context(), spec.GetName())
			return err == nil && d.GetRevision() > 0 && len(d.GetReplicas()) == int(spec.GetReplicas()) &&
				d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
		})
	}
}

// placements returns the node of each replica of the model, by the replica's name.
func placements(t *testing.T, n *node.Node) map[string]string {
	t.Helper()
	d, err := n.Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[string]string)
	for _, r := range d.GetReplicas() {
		at[r.GetName()] = r.GetNode()
	}
	return at
}

// TestAnyGatewayServes checks that replicas are spread over the nodes, and that each node's gateway
// serves the model, even on a node without a replica.
func TestAnyGatewayServes(t *testing.T) {
	nodes := startCluster(t, 3, nil)
	deploy(t, nodes[0], kjvSpec(2), nodes[1:]...)
	at := placements(t, nodes[2])
	if len(at) != 2 || at["kjv-0"] == at["kjv-1"] {
		t.Errorf("replicas are at %v", at)
	}
	g := goldens(t)[0]
	for _, n := range nodes {
		status, body := post(t, n, "/v1/completions",
			map[string]any{"model": "kjv", "prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0})
		var c completion
		if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK || c.Choices[0].Text != g.Text {
			t.Errorf("%s: %d %s", n.Member().GetName(), status, body)
		}
	}
}

// TestStopHandsOver checks that a node that stops migrates its sequences to other nodes, and that
// their streams get the same tokens.
func TestStopHandsOver(t *testing.T) {
	want := undisturbedStreams(t)
	nodes := startCluster(t, 3, func(_ int, c *node.Config) { c.Middleware = paced }) // so that they run at the stop
	deploy(t, nodes[0], lightSpec(t, 2))
	var leaving *node.Node // has a replica, but not the NATS server
	for name, node := range placements(t, nodes[0]) {
		for _, n := range nodes[1:] {
			if n.Member().GetName() == node {
				t.Logf("%s leaves with %s", node, name)
				leaving = n
			}
		}
	}
	running := make(chan []string, 1)
	go func() { running <- completeStreams(t, nodes[0]) }()
	waitFor(t, "streams on the node that leaves", func() bool {
		s, err := leaving.Backend().NodeStatus(t.Context())
		return err == nil && s.GetRunning() > 0
	})
	if err := leaving.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	got := <-running
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
		}
	}
	waitFor(t, "two replicas on the others", func() bool {
		at := placements(t, nodes[0])
		return len(at) == 2 && at["kjv-0"] != at["kjv-1"]
	})
}

// paced is middleware that delays every step. A replica moves only after ten seconds without a
// change, and streams that run meanwhile at full speed would keep all cores busy.
func paced(kind string) []actor.ReceiverMiddleware {
	if kind != "engine" {
		return nil
	}
	return []actor.ReceiverMiddleware{func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if _, ok := env.Message.(*messages.RunStep); ok {
				<-time.After(20 * time.Millisecond)
			}
			next(ctx, env)
		}
	}}
}

// TestRebalance checks that an undrained node gets a replica back while streams run, and that they
// get the same tokens. It takes ten seconds since real links and KV blocks need real time.
func TestRebalance(t *testing.T) {
	t.Parallel() // it mostly waits
	stream := func(n *node.Node, seed int) string {
		return complete(t, n,
			map[string]any{"model": "kjv", "prompt": "And it came to pass", "max_tokens": 60, "ignore_eos": true,
				"temperature": 0.9, "seed": seed}).Choices[0].Text
	}
	alone := start(t, withLight(t))
	want := []string{stream(alone, 0), stream(alone, 1), stream(alone, 2)}
	nodes := startCluster(t, 2, func(_ int, c *node.Config) { c.Middleware = paced })
	deploy(t, nodes[0], lightSpec(t, 2), nodes[1])
	drain := func(yes bool) {
		t.Helper()
		if _, err := nodes[0].Backend().DrainNode(t.Context(), "b", yes); err != nil {
			t.Fatal(err)
		}
	}
	on := func(node string) (count int) {
		for _, at := range placements(t, nodes[0]) {
			if at == node {
				count++
			}
		}
		return count
	}
	drain(true)
	waitFor(t, "both replicas on a", func() bool { return on("a") == 2 && on("b") == 0 })
	var streams sync.WaitGroup
	defer streams.Wait()
	ended := make(chan struct{})
	defer close(ended)
	for i := range want {
		streams.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if got := stream(nodes[1], i); got != want[i] {
					t.Errorf("stream %d: got %q, want %q", i, got, want[i])
					return
				}
			}
		})
	}
	drain(false)
	waitWithin(t, 2*time.Minute, "a replica on b again",
		func() bool { return on("a") == 1 && on("b") == 1 }) // a replica moves after ten seconds without a change
}

// TestUndrainStoppedNode checks that a drained and stopped node can be undrained, and that an
// unknown node can be neither drained nor undrained.
func TestUndrainStoppedNode(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	away := nodes[1].Member().GetName()
	if _, err := nodes[0].Backend().DrainNode(t.Context(), away, true); err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the node to leave", func() bool { return len(nodes[0].Backend().Members()) == 1 })
	if s, err := nodes[0].Backend().DrainNode(t.Context(), away, false); err != nil || s.GetDraining() ||
		s.GetMember().GetName() != away {
		t.Errorf("%v, %v", s, err)
	}
	waitFor(t, "the node to be no longer known as drained", func() bool {
		_, err := nodes[0].Backend().DrainNode(t.Context(), away, false)
		return err != nil
	})
	if _, err := nodes[0].Backend().DrainNode(t.Context(), "no such node", true); !strings.Contains(fmt.Sprint(err),
		"there are: a") {
		t.Errorf("an unknown node was drained: %v", err)
	}
}

// TestJoinedNodeKnowsReplicas checks that a node knows the replicas of the others when Start
// returns.
func TestJoinedNodeKnowsReplicas(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(2))
	for i := range 3 {
		name := string(rune('x' + i))
		n := start(t, func(c *node.Config) {
			c.Name, c.Devices = name, []host.Config{{MemoryBytes: 256 << 20}}
			c.Deployments, c.NATSListen, c.Join = nil, "", []string{nodes[0].NATSURL()}
		})
		if at := placements(t, n); len(at) != 2 {
			t.Errorf("%s knows of replicas at %v", name, at)
		}
	}
}

// TestStopWithoutNATS checks that a node whose NATS server is gone stops long before its drain
// timeout.
func TestStopWithoutNATS(t *testing.T) {
	t.Parallel() // it mostly waits
	server, err := natsd.Start(t.Context(),
		natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "apart", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *node.Config) {
		c.NATSListen, c.Join, c.DrainTimeout = "", []string{server.URL()}, 10*time.Minute
	})
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

package node_test

import (
	"maps"
	"net/http"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// watchers returns the number of watchers of each watched actor, by node and ID.
func watchers(nodes []*node.Node) map[string]uint32 {
	found := make(map[string]uint32)
	var visit func(node string, actors []*messages.ActorNode)
	visit = func(node string, actors []*messages.ActorNode) {
		for _, a := range actors {
			if a.GetWatchers() > 0 {
				found[node+":"+a.GetId()] = a.GetWatchers()
			}
			visit(node, a.GetChildren())
		}
	}
	for _, n := range nodes {
		visit(n.Member().GetName(), n.Backend().Tree())
	}
	return found
}

// TestRequestsLeaveNoWatchers checks that actors have as many watchers after requests on local and
// remote replicas as before.
func TestRequestsLeaveNoWatchers(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(2), nodes[1])
	ask := func() {
		for _, n := range nodes {
			if status, body := post(t, n, "/v1/completions",
				map[string]any{"model": "kjv", "prompt": "In the beginning", "n": 4,
					"max_tokens": 1}); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
		}
	}
	var before map[string]uint32
	// The gpu actor watches a replica from its first step on.
	waitFor(t, "a deployment, a router and a gpu actor to watch each replica", func() bool {
		ask()
		before = watchers(nodes)
		return before["a:node/replicas/kjv-0"]+before["b:node/replicas/kjv-0"] == 3 &&
			before["a:node/replicas/kjv-1"]+before["b:node/replicas/kjv-1"] == 3
	})
	for range 20 {
		ask()
	}
	waitFor(t, "the number of watchers to be as before", func() bool { return maps.Equal(watchers(nodes), before) })
}

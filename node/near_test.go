package node_test

import (
	"maps"
	"slices"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestPlacedNearWeights parks a model of the second of two nodes, and activates it: the replica comes back
// to the node that has the weights in host memory, though the other one is as empty and has the folder.
func TestPlacedNearWeights(t *testing.T) {
	nodes := startCluster(t, 2, func(_ int, c *node.Config) { c.WeightsHostBytes = 64 << 20 })
	conn := connect(t, nodes[0])
	events := recordEvents(t, conn, "troupe.v1.events.replica.>")
	answer[messages.DrainNodeResponse](t, conn, "troupe.v1.nodes.drain", `{"name": "a"}`)
	deploy(t, nodes[0], kjvSpec(1))
	if at := placements(t, nodes[0]); at["kjv-0"] != "b" {
		t.Fatalf("%v", at)
	}
	answer[messages.UndrainNodeResponse](t, conn, "troupe.v1.nodes.undrain", `{"name": "a"}`)
	answer[messages.ParkModelResponse](t, conn, "troupe.v1.models.park", `{"name": "kjv"}`)
	waitFor(t, "the model to be parked", func() bool {
		all := answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", `{}`).GetNodes()
		b, m := all[len(all)-1], modelOf(t, conn)
		return m.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_PARKED &&
			len(m.GetSpec().GetAssignments().GetReplicas()) == 0 && // a plan without it was made
			len(b.GetHostCache().GetImages()) == 1 &&
			!slices.ContainsFunc(b.GetGpus(), func(g *messages.GpuStatus) bool { return len(g.GetWeights()) > 0 })
	})
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
	waitFor(t, "the replica placed near the weights", func() bool {
		return events.have("its node has the weights in host memory")
	})
	waitFor(t, "the replica on b", func() bool { // perhaps under another name
		at := slices.Collect(maps.Values(placements(t, nodes[0])))
		return len(at) == 1 && at[0] == "b"
	})
}

package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/node"
)

// TestNodeWithoutFolderLoadsFromAnother deploys a model whose folder only one of two nodes may read. The
// other one gets weights, config and tokenizer from it, serves the same text, and goes on when the folder
// is deleted.
func TestNodeWithoutFolderLoadsFromAnother(t *testing.T) {
	dir, elsewhere := copyOfModel(t), t.TempDir()
	nodes := startCluster(t, 2, func(i int, c *node.Config) {
		c.WeightsHostBytes = 64 << 20
		if i == 1 {
			roots, err := modelfile.NewRoots(elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			c.Roots = roots
		} else {
			c.WeightsDiskBytes, c.WeightsDiskPath = 64<<20, filepath.Join(t.TempDir(), "weights")
		}
	})
	events := recordEvents(t, connect(t, nodes[0]), "troupe.v1.events.weights.>")
	spec := kjvSpec(1)
	spec.Path = dir
	deploy(t, nodes[0], spec)
	want, ok := greedyText(t, nodes[0])
	if !ok {
		t.Fatal(want)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	answer[messages.ScaleModelResponse](t, connect(t, nodes[0]), "troupe.v1.models.scale",
		`{"name": "kjv", "replicas": 2}`)
	waitFor(t, "a replica on each node", func() bool {
		d, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
		at := make(map[string]bool)
		for _, r := range d.GetReplicas() {
			if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				at[r.GetNode()] = true
			}
		}
		return err == nil && at["a"] && at["b"]
	})
	waitFor(t, "the event of the load", func() bool { return events.have("from node a") })
	for _, n := range nodes {
		waitFor(t, "the text of "+n.Member().GetName(), func() bool {
			got, ok := greedyText(t, n)
			if ok && got != want {
				t.Fatalf("%q, want %q", got, want)
			}
			return ok
		})
	}
}

// deleteFolder deploys a model, gets its text, and deletes its folder.
func deleteFolder(t *testing.T, n *node.Node, dir string) (want string) {
	t.Helper()
	spec := kjvSpec(1)
	spec.Path = dir
	deploy(t, n, spec)
	want, ok := greedyText(t, n)
	if !ok {
		t.Fatal(want)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return want
}

// scaleOut requests a second replica, and waits until replicas serve at two places.
func scaleOut(t *testing.T, n *node.Node) {
	t.Helper()
	answer[messages.ScaleModelResponse](t, connect(t, n), "troupe.v1.models.scale",
		`{"name": "kjv", "replicas": 2}`)
	waitFor(t, "a replica at two places", func() bool {
		d, err := n.Backend().Deployment(t.Context(), "kjv")
		at := make(map[string]bool)
		for _, r := range d.GetReplicas() {
			if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				at[r.GetNode()+r.GetGpu()] = true
			}
		}
		return err == nil && len(at) == 2
	})
}

// TestWeightsOfOtherDevice deletes the folder of a model of which only one device has the weights: the node
// has no host cache and no images. A second replica gets them from there.
func TestWeightsOfOtherDevice(t *testing.T) {
	dir := copyOfModel(t)
	n := startCluster(t, 1, func(_ int, c *node.Config) {
		c.Devices = []host.Config{{MemoryBytes: 256 << 20}, {Index: 1, MemoryBytes: 256 << 20}}
		c.WeightsHostBytes = 0
	})[0]
	events := recordEvents(t, connect(t, n), "troupe.v1.events.weights.>")
	want := deleteFolder(t, n, dir)
	scaleOut(t, n)
	waitFor(t, "the event of the load", func() bool { return events.have("from device gpu-") })
	for range 8 { // either replica may serve one
		if got, ok := greedyText(t, n); !ok || got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// TestWeightsOfOtherNodesDevice does the same with a second node, which may not read the folder either. It
// gets config and tokenizer, too.
func TestWeightsOfOtherNodesDevice(t *testing.T) {
	dir, elsewhere := copyOfModel(t), t.TempDir()
	nodes := startCluster(t, 2, func(i int, c *node.Config) {
		c.WeightsHostBytes = 0
		if i == 1 {
			roots, err := modelfile.NewRoots(elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			c.Roots = roots
		}
	})
	events := recordEvents(t, connect(t, nodes[0]), "troupe.v1.events.weights.>")
	want := deleteFolder(t, nodes[0], dir)
	scaleOut(t, nodes[0])
	waitFor(t, "the event of the load", func() bool { return events.have("from node a, device gpu-0") })
	for _, n := range nodes {
		waitFor(t, "the text of "+n.Member().GetName(), func() bool {
			got, ok := greedyText(t, n)
			if ok && got != want {
				t.Fatalf("%q, want %q", got, want)
			}
			return ok
		})
	}
}

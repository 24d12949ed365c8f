package node_test

import (
	"os"
	"path/filepath"
	"testing"

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

package tree_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
	"troupe/observe/tree"
)

var update = flag.Bool("update", false, "rewrite golden files")

func running(name, id, kind string, children ...*messages.ActorNode) *messages.ActorNode {
	return &messages.ActorNode{
		Name: name, Id: id, Kind: kind, State: messages.ActorState_ACTOR_STATE_RUNNING, Incarnation: 1, Messages: 3,
		Children: children,
	}
}

// gateway returns the tree of a node with sessions.
func gateway(node string, sessions int) *messages.ActorNode {
	g := running("gateway", "node/gateway", "gateway")
	for i := range sessions {
		name := fmt.Sprintf("session-%02d", i)
		g.Children = append(g.Children, running(name, "node/gateway/"+name, "session"))
	}
	return tree.Root(
		node,
		[]*messages.ActorNode{running("node", "node", "node", running("control", "node/control", "control"), g)},
	)
}

// crashed gives an actor a failure and a second incarnation.
func crashed(n *messages.ActorNode) {
	n.Incarnation, n.Restarts = 2, 1
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local))
	n.LastFailure = &messages.ActorFailure{Reason: "told to\ncrash", Message: "*messages.RunStep", Time: at}
}

// TestManyNodes renders a typical cluster: a node with many sessions of which one crashed, one with
// few, and a silent one.
func TestManyNodes(t *testing.T) {
	a := gateway("a", 64)
	crashed(a.GetChildren()[1].GetChildren()[40])
	stray := running("stray", "stray", "slot")
	stray.Of = "psalms@7"
	b := tree.Root(
		"b",
		[]*messages.ActorNode{stray, running("node", "node", "node", gateway("", 7).GetChildren()...)},
	)
	const active, standby = messages.Level_LEVEL_ACTIVE, messages.Level_LEVEL_STANDBY
	b.Children = append(b.Children, running("gpu-0", "node/gpu-0", "gpu", running("hbm", "node/gpu-0/hbm", "hbm")),
		running("gpu-1", "node/gpu-1", "gpu"))
	tree.AddWeights(b, map[string][]*messages.GpuWeights{
		"gpu-0": {{Owner: "weights-1", Model: "kjv", Level: active, Bytes: 12 << 20, Users: []string{"kjv-0", "kjv-1"}},
			{Owner: "weights-2", Model: "web", Level: standby, Bytes: 1 << 30}},
		"gpu-1": {{Owner: "weights-1", Model: "web", Bytes: 1 << 30, Loading: true}},
		"hbm":   {{Owner: "weights-9"}},
	})
	b.Children = append(b.Children, running("kjv-0", "node/replicas/kjv-0", "replica"),
		running("kjv-1", "node/replicas/kjv-1", "replica"))
	tree.AddFaults(b, map[string]*messages.ReplicaFault{"kjv-1": {Detail: "hung: step 7 has taken 6s"},
		"gpu-0": {Detail: "no replica"}})
	roots := []*messages.ActorNode{
		a,
		b,
		{Name: "c", Kind: "node", Unreachable: "no answer within 1s"},
		tree.Root("d", nil),
	}
	for _, r := range roots {
		tree.Fold(r)
	}
	for name, got := range map[string]string{"nodes.txt": tree.Text(roots), "nodes.dot": tree.DOT(roots)} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

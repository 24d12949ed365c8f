package top

import (
	"testing"

	"troupe/messages"
)

// TestTimeIsShown checks that a replica is shown with its share of the GPU's time.
func TestTimeIsShown(t *testing.T) {
	s := Sample{
		Nodes: []*messages.NodeStatus{{Member: &messages.Member{Name: "a"}, Gpus: []*messages.GpuStatus{{
			Turns: []*messages.GpuTurns{{Replica: "m-0", Share: 0.75}, {Replica: "n-0", Share: 0.25}},
		}}}},
		Models: []*messages.DeploymentStatus{{Replicas: []*messages.ReplicaStatus{
			{Name: "m-0", Node: "a"}, {Name: "n-0", Node: "a"}, {Name: "n-0", Node: "b"},
		}}},
	}
	rows := replicaSection(s, rates{}).rows
	for i, want := range []string{"75%", "25%", "0%"} {
		if got := rows[i].cells[9].text; got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
}

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

// TestSimulatedIsShown checks that a simulated replica and its device are marked, and a software device too.
func TestSimulatedIsShown(t *testing.T) {
	s := Sample{Models: []*messages.DeploymentStatus{{Replicas: []*messages.ReplicaStatus{
		{Name: "m-0", Backend: &messages.Backend{Kind: "simulated"}},
		{Name: "n-0", Backend: &messages.Backend{Kind: "native"}}, {Name: "o-0"},
	}}}}
	rows := replicaSection(s, rates{}).rows
	for i, want := range []string{"m-0 (simulated)", "n-0", "o-0"} {
		if got := rows[i].cells[0].text; got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
	for want, g := range map[string]*messages.GpuStatus{
		"H200 (simulated)":       {Product: "H200 (simulated)", Simulated: true, Engine: "simulated"},
		"host device (software)": {Product: "host device", Simulated: true, Engine: "native"},
	} {
		if got := product(g).text; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

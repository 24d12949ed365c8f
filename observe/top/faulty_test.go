package top

import (
	"testing"

	"troupe/messages"
)

// TestFaultsAreShown checks that a faulty replica is shown as such, and that its deployment says why.
func TestFaultsAreShown(t *testing.T) {
	replica := func(name string, f *messages.ReplicaFault) *messages.ReplicaStatus {
		return &messages.ReplicaStatus{Name: name, State: messages.ReplicaState_REPLICA_STATE_SERVING, Fault: f}
	}
	s := Sample{Models: []*messages.DeploymentStatus{{
		Detail: "2 of 3 replicas serve", Squeezed: []string{"m-0: 1 of 2 KV blocks"},
		Replicas: []*messages.ReplicaStatus{
			replica("m-0", nil),
			replica("m-1", &messages.ReplicaFault{Detail: "hung: step 7"}),
			replica("m-2", &messages.ReplicaFault{Detail: "corrupt: a canary failed", Final: true}),
		},
	}}}
	rows := replicaSection(s, rates{}).rows
	for i, want := range []struct {
		state string
		severity
	}{{"serving", normal}, {"faulty", warning}, {"faulty", critical}} {
		if rows[i].cells[2].text != want.state || rows[i].severity != want.severity {
			t.Errorf("row %d: %s, %d, want %v", i, rows[i].cells[2].text, rows[i].severity, want)
		}
	}
	const want = "2 of 3 replicas serve; 2 faulty: m-1: hung: step 7, …; 1 squeezed: m-0: 1 of 2 KV blocks"
	if got := modelSection(s).rows[0].cells[8].text; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

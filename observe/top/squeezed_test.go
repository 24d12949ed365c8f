package top

import (
	"testing"

	"troupe/messages"
)

// TestShowsSqueezed: the reason of a deployment names replicas that have fewer KV blocks than they would have alone, and how many.
func TestShowsSqueezed(t *testing.T) {
	serving := func(name string, blocks uint32) *messages.ReplicaStatus {
		return &messages.ReplicaStatus{
			Name: name, State: messages.ReplicaState_REPLICA_STATE_SERVING, KvBlocks: blocks, KvBlocksAlone: 4096,
		}
	}
	for want, all := range map[string][]*messages.ReplicaStatus{
		"": {serving("m-0", 4096), {Name: "m-1", KvBlocksAlone: 4096}},
		"1 squeezed: m-1: 1024 of 4096 KV blocks": {serving("m-0", 4096), serving("m-1", 1024)},
		"2 squeezed: m-0: 7 of 4096 KV blocks, …": {serving("m-0", 7), serving("m-1", 1024)},
	} {
		d := &messages.DeploymentStatus{
			Spec: &messages.DeploymentSpec{Name: "m"}, State: messages.DeploymentState_DEPLOYMENT_STATE_READY,
			Replicas: all,
			Squeezed: messages.Squeezed(all),
		}
		rows := modelSection(Sample{Models: []*messages.DeploymentStatus{d}}).rows
		if got := rows[0].cells[4].text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if mood := replicaSection(Sample{Models: []*messages.DeploymentStatus{d}}, rates{}).rows[1].mood; mood == well &&
			want != "" {
			t.Error("the squeezed replica is shown as well")
		}
	}
}

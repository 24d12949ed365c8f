package top

import (
	"testing"

	"troupe/messages"
)

// TestReasonNamesSqueezedReplicas checks that a deployment's reason names and counts the replicas
// with fewer KV blocks than they would have alone.
func TestReasonNamesSqueezedReplicas(t *testing.T) {
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
		if got := rows[0].cells[8].text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		replicas := replicaSection(Sample{Models: []*messages.DeploymentStatus{d}}, rates{}).rows
		if replicas[1].severity == normal && want != "" {
			t.Error("the squeezed replica has no warning")
		}
	}
}

// TestReasonNamesHold checks that a deployment's reason names the command that holds it, and its author.
func TestReasonNamesHold(t *testing.T) {
	for want, spec := range map[string]*messages.DeploymentSpec{
		"no room": {},
		"no room; held by models.scale by ops": {
			HeldBy: &messages.Hold{Who: "ops", What: "models.scale"}},
		"no room; held by a level that an operator set": {Level: messages.Level_LEVEL_STANDBY},
	} {
		if got := reason(&messages.DeploymentStatus{Spec: spec, Detail: "no room"}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

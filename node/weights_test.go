package node_test

import (
	"regexp"
	"testing"

	"troupe/messages"
)

// TestDropFreesWeights checks that weights stay on the GPU when a model is stopped, and that they are
// freed if the command says so.
func TestDropFreesWeights(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	weights := func() (all []*messages.GpuWeights) {
		for _, g := range answer[messages.ListGpusResponse](t, conn, "troupe.v1.gpus.list", `{}`).GetGpus() {
			all = append(all, g.GetWeights()...)
		}
		return all
	}
	scale := func(command string, replicas int) {
		t.Helper()
		answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", command)
		waitFor(t, "the replicas of "+command, func() bool {
			d := answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "kjv"}`).GetModel()
			return len(d.GetReplicas()) == replicas &&
				(replicas == 0 || d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY)
		})
	}
	const standby = messages.Level_LEVEL_STANDBY
	scale(`{"name": "kjv", "replicas": 0}`, 0)
	waitFor(t, "weights without a user", func() bool {
		all := weights()
		return len(all) == 1 && all[0].GetLevel() == standby && len(all[0].GetUsers()) == 0
	})
	tree := answer[messages.TreeResponse](t, conn, "troupe.v1.tree", `{"format": "text"}`).GetText()
	if !regexp.MustCompile(`(?m)├─ weights-\d+ +weights kjv +standby, [\d.]+ MiB$`).MatchString(tree) {
		t.Errorf("no weights in the tree:\n%s", tree)
	}
	scale(`{"name": "kjv", "replicas": 1}`, 1)
	scale(`{"name": "kjv", "replicas": 0, "drop": true}`, 0)
	waitFor(t, "no weights", func() bool { return len(weights()) == 0 })

	scale(`{"name": "kjv", "replicas": 1}`, 1)
	answer[messages.DeleteModelResponse](t, conn, "troupe.v1.models.delete", `{"name": "kjv", "drop": true}`)
	waitFor(t, "no weights of the deleted model", func() bool { return len(weights()) == 0 })
	if m := request(t, conn, "troupe.v1.models.delete", `{"name": "kjv", "drop": true}`); m.Header.Get(
		"Nats-Service-Error-Code") != "404" {
		t.Errorf("%v", m.Header)
	}
}

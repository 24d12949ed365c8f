package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestStandby puts a model on standby and activates it: its weights stay on the device, nothing is
// copied to it, and the output is the same. Meanwhile requests are refused with the remedy.
func TestStandby(t *testing.T) {
	gpu := openWatched(t)
	bytes := &gpu.bytes
	n := start(t, func(c *node.Config) { c.GPUs, c.Devices = []node.GPU{gpu.GPU()}, nil })
	conn := connect(t, n)
	model := func() *messages.DeploymentStatus {
		return answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "kjv"}`).GetModel()
	}
	device := func() *messages.GpuStatus {
		return answer[messages.ListGpusResponse](t, conn, "troupe.v1.gpus.list", `{}`).GetGpus()[0]
	}
	kv := func() (pages uint32) {
		for _, l := range device().GetLeases() {
			if l.GetOwner() == "kjv-0" && l.GetKind() == "kv" {
				pages = l.GetPages()
			}
		}
		return pages
	}
	prompt := map[string]any{"model": "kjv", "prompt": "In the beginning", "max_tokens": 20, "temperature": 0}
	want, had := complete(t, n, prompt).Choices[0].Text, kv()
	if loaded := bytes.Load(); loaded < 5<<20 {
		t.Fatalf("only %d bytes were copied to the device by now", loaded)
	}

	stored := answer[messages.StandbyModelResponse](t, conn, "troupe.v1.models.standby", `{"name": "kjv"}`)
	if stored.GetDeployment().GetLevel() != messages.Level_LEVEL_STANDBY || len(stored.GetChanges()) != 2 {
		t.Errorf("%v", stored)
	}
	waitFor(t, "the level standby", func() bool {
		return model().GetState() == messages.DeploymentState_DEPLOYMENT_STATE_STANDBY && kv() < had
	})
	waitFor(t, "the level of the weights and of the replica", func() bool {
		weights, r := device().GetWeights(), replica(t, n, "kjv")
		return len(weights) == 1 && weights[0].GetLevel() == messages.Level_LEVEL_STANDBY &&
			fmt.Sprint(weights[0].GetUsers()) == "[kjv-0]" && r.GetLevel() == messages.Level_LEVEL_STANDBY &&
			r.GetState() == messages.ReplicaState_REPLICA_STATE_STANDBY
	})
	text := answer[messages.TreeResponse](t, conn, "troupe.v1.tree", `{"format": "text"}`).GetText()
	if !strings.Contains(text, "standby, ") || !strings.Contains(text, ", used by kjv-0") {
		t.Errorf("%s", text)
	}
	status, body := post(t, n, "/v1/completions", prompt)
	if status != http.StatusServiceUnavailable || !strings.Contains(string(body),
		`model kjv is at level standby; models.activate {\"name\": \"kjv\"} makes it serve`) {
		t.Errorf("%d %s", status, body)
	}
	if body := getBody(t, n, "/ready"); !strings.Contains(body, `"ready":true`) {
		t.Errorf("/ready: %s", body)
	}
	if body := getBody(t, n, "/ready?model=kjv"); !strings.Contains(body, `"state":"standby"`) {
		t.Errorf("/ready: %s", body)
	}

	before := bytes.Load()
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
	waitFor(t, "the level active and its KV memory", func() bool {
		return model().GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY && kv() == had
	})
	waitFor(t, "the check of the weights", func() bool { return replica(t, n, "kjv").GetVerified() == 1 })
	if now := bytes.Load(); now > before+64<<10 { // the steps of the check copy their inputs
		t.Errorf("%d bytes were copied to the device", now-before)
	}
	if got := complete(t, n, prompt).Choices[0].Text; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if r := replica(t, n, "kjv"); r.GetLoads() != 1 || r.GetIncarnation() != 1 {
		t.Errorf("%v", r)
	}
	if now := bytes.Load(); now > before+1<<20 {
		t.Errorf("%d bytes were copied to the device for one request", now-before)
	}
}

// TestStandbyRounds checks that rounds leave the memory of the device and the output as they were.
// TestRoundsLeaveNothing of testkit/identity does more.
func TestStandbyRounds(t *testing.T) {
	n := start(t, func(c *node.Config) { c.Devices = c.Devices[:1] })
	conn := connect(t, n)
	in := func(state messages.DeploymentState) func() bool {
		return func() bool {
			return answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get",
				`{"name": "kjv"}`).GetModel().GetState() == state
		}
	}
	memory := func() string {
		d := answer[messages.ListGpusResponse](t, conn, "troupe.v1.gpus.list", `{}`).GetGpus()[0]
		return fmt.Sprint(d.GetFreeBytes(), d.GetBudget(), d.GetLeases())
	}
	prompt := map[string]any{"model": "kjv", "prompt": "In the beginning", "max_tokens": 20, "temperature": 0}
	want, had := complete(t, n, prompt).Choices[0].Text, memory()
	for range 10 {
		answer[messages.StandbyModelResponse](t, conn, "troupe.v1.models.standby", `{"name": "kjv"}`)
		waitFor(t, "the level standby", in(messages.DeploymentState_DEPLOYMENT_STATE_STANDBY))
		answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
		waitFor(t, "the level active", in(messages.DeploymentState_DEPLOYMENT_STATE_READY))
		if got := complete(t, n, prompt).Choices[0].Text; got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	waitFor(t, "the memory as it was", func() bool { return memory() == had })
	if r := replica(t, n, "kjv"); r.GetLoads() != 1 || r.GetIncarnation() != 1 {
		t.Errorf("%v", r)
	}
}

// TestStandbyOfOneReplica puts one of two replicas on standby, over a restart of it. The other one
// serves.
func TestStandbyOfOneReplica(t *testing.T) {
	n := start(t, func(c *node.Config) { c.Deployments[0].Replicas = new(uint32(2)) })
	conn := connect(t, n)
	level := func(name string) messages.Level {
		list := answer[messages.ListReplicasResponse](t, conn, "troupe.v1.replicas.list", `{}`)
		for _, r := range list.GetReplicas() {
			if r.GetName() == name {
				return r.GetLevel()
			}
		}
		return messages.Level_LEVEL_UNSPECIFIED
	}
	waitFor(t, "two replicas", func() bool {
		return level("kjv-0") == messages.Level_LEVEL_ACTIVE && level("kjv-1") == messages.Level_LEVEL_ACTIVE
	})
	answer[messages.StandbyModelResponse](t, conn, "troupe.v1.models.standby", `{"name": "kjv", "replica": "kjv-1"}`)
	waitFor(t, "one on standby", func() bool { return level("kjv-1") == messages.Level_LEVEL_STANDBY })
	answer[messages.RestartReplicaResponse](t, conn, "troupe.v1.replicas.restart", `{"name": "kjv-1"}`)
	waitFor(t, "its restart", func() bool {
		list := answer[messages.ListReplicasResponse](t, conn, "troupe.v1.replicas.list", `{}`).GetReplicas()
		return len(list) == 2 && list[1].GetIncarnation() == 2 && list[1].GetLevel() == messages.Level_LEVEL_STANDBY
	})
	waitFor(t, "the model to be ready with one on standby", func() bool {
		d := answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "kjv"}`).GetModel()
		return d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY &&
			d.GetDetail() == "1 of 2 replicas are to be on standby"
	})
	complete(t, n, map[string]any{"model": "kjv", "prompt": "And", "max_tokens": 2})
	if body := getBody(t, n, "/ready?model=kjv"); !strings.Contains(body, `"state":"ready"`) {
		t.Errorf("/ready: %s", body)
	}

	// The model goes to standby, but for this replica; then all are activated.
	answer[messages.StandbyModelResponse](t, conn, "troupe.v1.models.standby", `{"name": "kjv"}`)
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv", "replica": "kjv-1"}`)
	waitFor(t, "the other one on standby", func() bool {
		return level("kjv-0") == messages.Level_LEVEL_STANDBY && level("kjv-1") == messages.Level_LEVEL_ACTIVE
	})
	complete(t, n, map[string]any{"model": "kjv", "prompt": "And", "max_tokens": 2})
	after := answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
	if d := after.GetDeployment(); d.Held() || len(after.GetChanges()) != 3 ||
		after.GetChanges()[1].GetFrom() != "kjv-1 active" {
		t.Errorf("%v", after)
	}
	waitFor(t, "both active", func() bool { return level("kjv-0") == messages.Level_LEVEL_ACTIVE })

	for name, tc := range map[string]struct{ verb, body, code, text string }{
		"no name":     {"standby", `{}`, "400", "name is missing"},
		"no model":    {"standby", `{"name": "none"}`, "404", `model \"none\" is not deployed`},
		"no replica":  {"activate", `{"name": "kjv", "replica": "kjv-7"}`, "404", "it has: kjv-0, kjv-1"},
		"other model": {"standby", `{"name": "none", "replica": "kjv-1"}`, "404", `not deployed; there are: kjv`},
	} {
		m := request(t, conn, "troupe.v1.models."+tc.verb, tc.body)
		if m.Header.Get("Nats-Service-Error-Code") != tc.code || !strings.Contains(string(m.Data), tc.text) {
			t.Errorf("%s: %v %s", name, m.Header, m.Data)
		}
	}
	answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name": "kjv", "replicas": 0}`)
	m := request(t, conn, "troupe.v1.models.standby", `{"name": "kjv"}`)
	if m.Header.Get("Nats-Service-Error-Code") != "503" ||
		!strings.Contains(string(m.Data), `models.activate {\"name\": \"kjv\"} starts it`) {
		t.Errorf("%v %s", m.Header, m.Data)
	}
}

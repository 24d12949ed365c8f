package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"troupe/messages"
)

// TestDeployChangesGivenFields checks that a deploy of an existing name changes the given fields,
// that null resets a field, and that the answer lists the changes.
func TestDeployChangesGivenFields(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	for _, tc := range []struct {
		fields  string
		want    string // changes in the answer
		waiting float64
	}{
		{`"max_waiting": 9`, `max_waiting 1024 → 9`, 9},
		{`"max_sequences": 8`, `max_sequences 64 → 8`, 9},
		{`"max_waiting": 0, "min_replicas": 0, "max_replicas": 2`,
			`max_waiting 9 → 0, min_replicas 1 → 0, max_replicas 1 → 2`, 0},
		{`"max_waiting": null`, `max_waiting 0 → 1024`, 1024},
	} {
		m := request(t, conn, "troupe.v1.models.deploy", `{"deployment": {"name": "kjv", `+tc.fields+`}}`)
		var got struct {
			Deployment map[string]any
			Changes    []struct{ Field, From, To string }
		}
		if err := json.Unmarshal(m.Data, &got); err != nil || m.Header.Get("Nats-Service-Error") != "" {
			t.Fatalf("%s: %v %s", tc.fields, m.Header, m.Data)
		}
		var changes []string
		for _, c := range got.Changes {
			changes = append(changes, fmt.Sprintf("%s %s → %s", c.Field, c.From, c.To))
		}
		if text := strings.Join(changes, ", "); text != tc.want || got.Deployment["max_waiting"] != tc.waiting {
			t.Errorf("%s: changed %q, want %q; max_waiting is %v", tc.fields, text, tc.want,
				got.Deployment["max_waiting"])
		}
	}
}

// TestConcurrentDeploysMerge checks that concurrent deploys of different fields keep each other's
// changes.
func TestConcurrentDeploysMerge(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	fields := []string{
		`"max_waiting": 9`,
		`"max_sequences": 7`,
		`"step_tokens": 96`,
		`"min_replicas": 0`,
		`"max_replicas": 3`,
		`"max_adapters": 5`,
	}
	var all sync.WaitGroup
	for _, f := range fields {
		all.Go(func() {
			for { // on a busy machine the command may end before the store has confirmed the change
				m := request(t, conn, "troupe.v1.models.deploy", `{"deployment": {"name": "kjv", `+f+`}}`)
				switch failure := m.Header.Get("Nats-Service-Error"); {
				case failure == "":
					return
				case !strings.Contains(string(m.Data), "REASON_OUTCOME_UNKNOWN"):
					t.Errorf("%s: %s", f, failure)
					return
				}
			}
		})
	}
	all.Wait()
	got := answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "kjv"}}`).GetDeployment()
	if got.GetMaxWaiting() != 9 || got.GetMaxSequences() != 7 || got.GetStepTokens() != 96 ||
		got.GetMaxReplicas() != 3 ||
		got.GetMinReplicas() != 0 ||
		got.GetMaxAdapters() != 5 {
		t.Errorf("%v", got)
	}
}

// TestStopAndStart checks that a model with 0 replicas keeps its deployment. Its requests are
// refused, the node is ready, and only an operator starts it again.
func TestStopAndStart(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	stopped := answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name": "kjv", "replicas": 0}`)
	if d := stopped.GetDeployment(); d.GetReplicas() != 0 || d.GetMinReplicas() != 1 {
		t.Errorf("%v", stopped)
	}
	var d *messages.DeploymentStatus
	waitFor(t, "no replica", func() bool {
		d = answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "kjv"}`).GetModel()
		return len(d.GetReplicas()) == 0 && strings.Contains(d.GetDetail(), "models.activate starts it")
	})
	if d.GetState().String() != "DEPLOYMENT_STATE_STOPPED" {
		t.Errorf("%v", d)
	}
	status, body := post(t, n, "/v1/completions", map[string]any{"model": "kjv", "prompt": "And"})
	if status != http.StatusServiceUnavailable || !strings.Contains(string(body), `"code":"model_stopped"`) ||
		!strings.Contains(string(body), `models.scale {\"name\": \"kjv\", \"replicas\": 1} starts it`) {
		t.Errorf("%d %s", status, body)
	}
	if body := getBody(t, n, "/ready"); !strings.Contains(body, `"ready":true`) {
		t.Errorf("/ready: %s", body)
	}
	if body := getBody(t, n, "/v1/models"); !strings.Contains(string(body), `"kjv"`) {
		t.Errorf("/v1/models: %s", body)
	}
	answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "kjv", "max_waiting": 5}}`)
	answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name": "kjv", "replicas": 1}`)
	waitFor(t, "a replica", func() bool {
		d = answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "kjv"}`).GetModel()
		return d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY && len(d.GetReplicas()) == 1
	})
	if d.GetSpec().GetMaxWaiting() != 5 {
		t.Errorf("%v", d.GetSpec())
	}
}

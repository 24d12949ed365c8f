package control

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

// TestPriorityFields checks which priorities, SLOs and groups of devices are accepted, and that what makes
// no sense is refused by the name of its field.
func TestPriorityFields(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                          "",
		`{"priority": "high"}`:                        "",
		`{"priority": "interactive"}`:                 "",
		`{"default_class": "batch"}`:                  "",
		`{"slo": {"ttft": "200ms"}}`:                  "",
		`{"slo": {}, "priority":"batch"}`:             "",
		`{"priority": "critical", "min_replicas": 0}`: "",
		`{"pinned": true, "min_replicas": 0}`:         "",
		`{"priority": 7}`:                             "deployment.priority is 7; send critical, high",
		`{"default_class": "critical"}`:               "deployment.default_class is 4; send batch",
		`{"default_class": 0}`:                        "deployment.default_class is 0; send batch",
		`{"slo": {"ttft": "0s"}}`:                     `deployment.slo.ttft is 0s; send a time such as "200ms"`,
		`{"slo": {"tpot": "-1s"}}`:                    "deployment.slo.tpot is -1s",
		`{"slo": {"tpot": "2h"}}`:                     "deployment.slo.tpot is 2h0m0s",
		`{"priority": "batch", "slo": {"ttft": "1s", "tpot": "50ms"}}`: "deployment.slo is ttft 1s, tpot 50ms, " +
			"but deployments of priority batch have no SLO",
		`{"tensor_parallel": 0}`: "deployment.tensor_parallel is 0; at least 1",
		`{"tensor_parallel": 2}`: "deployment.tensor_parallel is 2, but the native backend cannot divide a replica",
		`{"tensor_parallel": 2, "engine": {"kind": "simulated"}}`: "deployment.tensor_parallel is 2, but the " +
			"simulated backend cannot",
		`{"tensor_parallel": 65}`: "deployment.tensor_parallel is 65; at most 64",
	} {
		spec := decodeDeploy(t, body).GetDeployment()
		spec.Path = "/p"
		_, err := Normalize(spec)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", body, err, want)
		}
	}
}

// TestPriorityGivesClass checks the class of requests and of replicas for each priority, without a class of
// its own and with one.
func TestPriorityGivesClass(t *testing.T) {
	for priority, want := range map[string][3]string{
		"critical": {"INTERACTIVE", "CRITICAL", "CRITICAL"},
		"high":     {"INTERACTIVE", "INTERACTIVE", "BATCH"},
		"standard": {"STANDARD", "STANDARD", "BATCH"},
		"batch":    {"BATCH", "BATCH", "BATCH"},
	} {
		spec := decodeDeploy(t, `{"priority": "`+priority+`"}`).GetDeployment()
		if got := spec.RequestClass().String(); got != "PRIORITY_CLASS_"+want[0] {
			t.Errorf("%s: requests %s", priority, got)
		}
		if got := spec.ReplicaClass().String(); got != "PRIORITY_CLASS_"+want[1] {
			t.Errorf("%s: replicas %s", priority, got)
		}
		spec.DefaultClass = messages.PriorityClass_PRIORITY_CLASS_BATCH.Enum()
		if got := spec.RequestClass().String(); got != "PRIORITY_CLASS_BATCH" {
			t.Errorf("%s with a class: requests %s", priority, got)
		}
		if got := spec.ReplicaClass().String(); got != "PRIORITY_CLASS_"+want[2] {
			t.Errorf("%s with a class: replicas %s", priority, got)
		}
	}
}

// TestDecodeDurations checks that durations are read as operators write them, and as protojson does.
func TestDecodeDurations(t *testing.T) {
	for text, want := range map[string]string{
		"200ms": `{"ttft":"0.200s"}`, "0.2s": `{"ttft":"0.200s"}`, "1m30s": `{"ttft":"90s"}`,
		"1.5ms": `{"ttft":"0.001500s"}`,
	} {
		got, err := protojson.Marshal(decodeDeploy(t, `{"slo": {"ttft": "`+text+`"}}`).GetDeployment().GetSlo())
		if err != nil || strings.ReplaceAll(string(got), " ", "") != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	var req messages.DeployModelRequest
	err := Decode([]byte(`{"deployment": {"slo": {"ttft": "soon"}}}`), &req)
	if err == nil || !strings.Contains(err.Error(), `"soon"; send a time such as "200ms"`) {
		t.Error(err)
	}
}

// TestChangesOfSLO checks how a change of the SLO is shown.
func TestChangesOfSLO(t *testing.T) {
	stored := (&messages.DeploymentSpec{Name: "a", Path: "/p"}).Complete()
	req := decodeDeploy(t, `{"slo": {"ttft": "300ms"}, "pinned": true, "default_class": "batch"}`)
	next, err := applyChange(stored, req.GetDeployment(), nil)
	want := "default_class PRIORITY_CLASS_BATCH, slo ttft 300ms, pinned from false to true"
	if got := ChangesText(Changes(stored, next)); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	back, err := applyChange(next, &messages.DeploymentSpec{Name: "a"}, []string{"slo", "default_class"})
	want = "default_class from PRIORITY_CLASS_BATCH to none, slo from ttft 300ms to none"
	if got := ChangesText(Changes(next, back)); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"troupe/testkit"
)

// TestTop runs top and tree against a node that serves a model.
func TestTop(t *testing.T) {
	_, url := startNode(t, t.TempDir())
	ask(t, url, "troupe.v1.models.deploy", `{"deployment": {"name": "kjv", "path": "`+testkit.Model()+`"}}`)
	serves(t, url)
	frame := runCommand(t, "top", "--once", "--nats", url)
	for _, want := range []string{"1 node  1 GPU  0 sessions", "/gpu-0  serving", "of 256 MiB", "kjv-0", "1 of 1"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	if strings.Contains(frame, "\x1b") {
		t.Errorf("colors without a terminal: %q", frame)
	}
	var report struct {
		Nodes  []struct{ Gpus []struct{ Name string } }
		Models []struct {
			Replicas []struct{ Name, State string }
		}
		Rates map[string]struct{ In, Out *float64 } `json:"replica_tokens_per_second"`
	}
	if text := runCommand(t, "top", "--json", "--nats", url); json.Unmarshal([]byte(text), &report) != nil ||
		report.Nodes[0].Gpus[0].Name != "gpu-0" ||
		report.Models[0].Replicas[0].State != "REPLICA_STATE_SERVING" || report.Rates["kjv-0"].Out == nil {
		t.Error(text)
	}
	node := strings.Fields(strings.Split(runCommand(t, "tree", "--nats", url), "\n")[1])[0]
	if text := runCommand(t, "tree", "--nats", url, "--node", node); !strings.Contains(text, "\n"+node+" ") ||
		!strings.Contains(text, "kjv-0") {
		t.Error(text)
	}
	if out, err := command(t.Context(), t, "tree", "--nats", url, "--node", "none").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), `node "none" is not in the cluster`) {
		t.Errorf("%v %s", err, out)
	}
}

// runCommand runs a command that must succeed, and returns its output.
func runCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), t, args...).Output()
	if err != nil {
		t.Fatalf("%v: %v %s", args, err, out)
	}
	return string(out)
}

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/testkit"
)

// costs are costs of the shipped model that no machine has.
const costs = `version: 1
name: kjv-2m on host device
device: {name: host device, software: true}
model: {name: kjv-2m, layers: 6, hidden: 192, intermediate: 512, vocab: 1024, heads: 6, kv_heads: 2, head_dim: 32,
  tied: true, context_tokens: 1024, weight_bits: 32, kv_element_bytes: 4}
steps: {form: sum, fixed_us: 1000, origin: {source: a test}}
`

// TestRecord records a node until Ctrl-C, simulates the recording, and checks its decisions.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	_, url := startNode(t, filepath.Join(dir, "data"))
	ask(t, url, "troupe.v1.models.deploy", `{"deployment": {"name": "kjv", "path": "`+testkit.Model()+`"}}`)
	serves(t, url)
	file, profile := filepath.Join(dir, "a.rec.gz"), filepath.Join(dir, "costs.yaml")
	if err := os.WriteFile(profile, []byte(costs), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t.Context(), t, "record", file, "--nats", url, "--costs", profile)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(log).ReadString('\n')
	if err != nil || line != "Recording 1 nodes; Ctrl-C ends it.\n" {
		t.Fatalf("%v: %q", err, line)
	}
	for range 3 {
		ask(t, url, "troupe.v1.infer.kjv", `{"prompt": "In the beginning", "max_tokens": 4, "stream": false}`)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), ": 3 requests, 3 decisions, 0 lines lost.") {
		t.Fatalf("%v: %s", err, &out)
	}
	text := runCommand(t, "simulate", "--recording", file)
	for _, want := range []string{"kjv    TTFT P50", "\nWorst: ", "\n3 requests were simulated.\n",
		"\n3 of 3 recorded decisions are the same.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text = runCommand(t, "report", "--recording", file, "--price", "2")
	if !strings.Contains(text, "\nkjv ") || !strings.Contains(text, "COST/DAY") || !strings.Contains(text, "shared ") {
		t.Error(text)
	}
	if text := runCommand(t, "simulate", "--recording", file, "--check-decisions"); text !=
		"3 of 3 recorded decisions are the same.\n" {
		t.Error(text)
	}
}

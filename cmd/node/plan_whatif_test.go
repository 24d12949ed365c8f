package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestWhatIf checks that a cluster is read, simulated and not changed, and that wrong uses are refused.
func TestWhatIf(t *testing.T) {
	url, conn := natsAt(t, "")
	kind := `"product": "NVIDIA H200 SXM 141 GB (simulated)", "engine": "simulated"`
	for endpoint, answer := range map[string]string{
		"nodes.list": `{"nodes": [{"member": {"name": "a"}, "gpus": [{"name": "gpu-0", ` + kind +
			`, "memoryBytes": "150000000000", "budget": {"kvReserve": "15000000000"}}]}]}`,
		"models.list": `{"models": [{"spec": {"name": "chat", "path": "/models/chat", "replicas": 1, "minReplicas": 1,
			"maxReplicas": 1, "maxSequences": 16, "maxWaiting": 100, "stepTokens": 512, "blockTokens": 16,
			"engine": {"kind": "simulated"}}, "replicas": [{"name": "chat-0", "node": "a", "gpu": "gpu-0"}]}]}`,
		"node.a.model": `{"sizes": {"weightBytes": "16000000000", "kvTokenBytes": "131072", "contextTokens": "8192"}}`,
	} {
		respond := func(m *nats.Msg) { _ = m.Respond([]byte(answer)) }
		if _, err := conn.Subscribe("troupe.v1."+endpoint, respond); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"":                                 "Simulated: 10m0s of virtual time from the present state.",
		"--for 30s --demand chat=2/s":      "chat gets 2 requests/s",
		"--for 30s -o json":                `"simulated": true`,
		"--for 30s --set chat.slo.ttft=3s": "/ 3s",
	} {
		text := runCommand(t, append(append([]string{"plan", "--what-if"}, strings.Fields(args)...), "--nats", url)...)
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", args, want, text)
		}
	}
}

// TestWhatIfOptions checks which options exclude each other.
func TestWhatIfOptions(t *testing.T) {
	for name, w := range map[string]struct {
		whatIfOptions
		other bool
	}{
		"need --what-if": {whatIfOptions{For: 1}, false}, "leave out": {whatIfOptions{WhatIf: true}, true},
		"must be positive": {whatIfOptions{WhatIf: true, For: -1}, false},
	} {
		if err := w.check(w.other); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

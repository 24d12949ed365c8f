package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

// TestPlan checks which requests "troupe plan" makes, and what it prints.
func TestPlan(t *testing.T) {
	url, conn := natsAt(t, "")
	var asked sync.Map // endpoint -> request
	for endpoint, answer := range map[string]string{
		"planner.get": `{"planner": {"node": "a", "leads": true, "term": "3"}}`,
		"planner.plan": `{"plan": {"node": "a", "term": "3",
			"models": [{"name": "kjv", "missing": 1, "unmet": "no room"}]}}`,
		"planner.explain": `{"explanation": {"model": {"name": "kjv"}, "devices": [{"device": "a/gpu-0",
			"why": "lacks 3 MiB"}]}}`,
		"planner.history": `{"plans": [{"number": "7", "node": "a",
			"departures": [{"name": "kjv-0", "why": "idle"}]}]}`,
	} {
		if _, err := conn.Subscribe("troupe.v1."+endpoint, func(m *nats.Msg) {
			asked.Store(endpoint, m.Data)
			_ = m.Respond([]byte(answer))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string][]string{
		"":                  {"The planner of a leads in term 3", "Nothing changes.", "kjv  lacks 1  no room"},
		"kjv":               {"a/gpu-0  no        lacks 3 MiB"},
		"--history":         {"Plan 7", "- kjv-0  leaves    idle"},
		"-o json kjv":       {`"device": "a/gpu-0"`},
		"-o json":           {`"unmet": "no room"`},
		"--history -o json": {`"number": "7"`},
	} {
		text := runCommand(t, append(append([]string{"plan"}, strings.Fields(args)...), "--nats", url)...)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("plan %s: no %q in\n%s", args, part, text)
			}
		}
	}
	req := &messages.ExplainModelRequest{}
	if err := protojson.Unmarshal(requestOf(&asked, "planner.explain"), req); err != nil || req.GetName() != "kjv" {
		t.Errorf("%v, %v", req, err)
	}
	runCommand(t, "plan", "--number", "7", "--nats", url)
	plan := &messages.PlanRequest{}
	if err := protojson.Unmarshal(requestOf(&asked, "planner.plan"), plan); err != nil || plan.GetNumber() != 7 {
		t.Errorf("%v, %v", plan, err)
	}
}

// requestOf returns the last request to an endpoint.
func requestOf(asked *sync.Map, endpoint string) []byte {
	data, _ := asked.Load(endpoint)
	b, _ := data.([]byte)
	return b
}

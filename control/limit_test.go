package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

// TestLongPlan checks that a plan that is too long for a message keeps the models that change, and counts those
// that it leaves out.
func TestLongPlan(t *testing.T) {
	const models, limit = 2000, 100_000
	plan := &messages.PlanReport{Number: 7, Writes: []*messages.PlanWrite{{Model: "m-1999", To: 2}}}
	for i := range models {
		name := fmt.Sprintf("m-%04d", i)
		m := &messages.ModelPlan{Name: name, Why: strings.Repeat("\"", 40)}
		if i == 1998 {
			m.Missing = 1
		}
		plan.Models = append(plan.Models, m)
		plan.Replicas = append(plan.Replicas, &messages.PlannedReplica{Name: name + "-0", Model: name})
	}
	plan.Departures = []*messages.PlannedDeparture{{Name: "m-1997-0", Model: "m-1997"}}
	body, err := encodeWithin(&messages.PlanResponse{Plan: plan}, limit)
	if err != nil || len(body) > limit || len(body) < limit-1000 {
		t.Fatalf("%d bytes, want at most %d and not much less; %v", len(body), limit, err)
	}
	got := &messages.PlanResponse{}
	if err := protojson.Unmarshal(body, got); err != nil {
		t.Fatal(err)
	}
	var names, replicas []string
	for _, m := range got.GetPlan().GetModels() {
		names = append(names, m.GetName())
	}
	for _, r := range got.GetPlan().GetReplicas() {
		replicas = append(replicas, r.GetModel())
	}
	for _, name := range []string{"m-0000", "m-1997", "m-1998", "m-1999"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is left out", name)
		}
	}
	if !slices.Equal(names, replicas) {
		t.Errorf("replicas of %v, models %v", replicas, names)
	}
	if n := int(got.GetPlan().GetLeftOut()); n+len(names) != models || got.GetPlan().GetNumber() != 7 {
		t.Errorf("plan %d: %d models, %d left out, want %d", got.GetPlan().GetNumber(), len(names), n, models)
	}
	if len(plan.GetModels()) != models {
		t.Errorf("the plan itself has only %d models left", len(plan.GetModels()))
	}
}

// TestAnswerTooLong checks the error for an answer that cannot be shortened.
func TestAnswerTooLong(t *testing.T) {
	for _, answer := range []*messages.PlanResponse{
		{Plan: &messages.PlanReport{Snapshot: make([]byte, 2000)}},
		{Plan: &messages.PlanReport{Snapshot: make([]byte, 2000), Models: []*messages.ModelPlan{{Name: "m"}}}},
	} {
		_, err := encodeWithin(answer, 1000)
		if err == nil || !strings.Contains(err.Error(), "max_payload") {
			t.Errorf("%v", err)
		}
	}
}

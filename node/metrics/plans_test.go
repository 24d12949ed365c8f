package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/core/planner"
	"troupe/core/schedule"
)

// TestPlans checks the metrics of two plans.
func TestPlans(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := NewPlans(registry)
	changes := []planner.Change{{Replica: "m-1"}, {Replica: "n-1", Withdrawn: true}}
	p.Planned(&planner.Record{Causes: []string{"n: a spike", "interval"},
		Plan:  schedule.Plan{Unmet: []schedule.Unmet{{Model: "m", Missing: 2}}},
		Steps: []planner.Step{{Name: "schedule", Took: time.Second}},
		Writes: []planner.Write{{Outcome: planner.Done, Changes: changes},
			{Outcome: planner.Conflict, Changes: changes}}})
	p.Planned(&planner.Record{Causes: []string{"interval"}, Plan: schedule.Plan{Unmet: []schedule.Unmet{
		{Model: "n", Missing: 1}}}})
	p.Planned(&planner.Record{Causes: []string{"node a has changed"}})
	p.Planned(&planner.Record{Plan: schedule.Plan{Unmet: []schedule.Unmet{{Model: "n", Missing: 1}}}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			got = append(got, fmt.Sprintf("%s %s %v", strings.TrimPrefix(f.GetName(), "troupe_planner_"),
				m.GetLabel()[0].GetValue(), value))
		}
	}
	want := []string{
		"changes_total placed 1", "changes_total withdrawn 1", "missing_replicas n 1",
		"plans_total interval 1", "plans_total leader 1", "plans_total model 1", "plans_total node 1",
		"step_seconds schedule 1", "writes_total conflict 1", "writes_total stored 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

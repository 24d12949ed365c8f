package plan

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

var update = flag.Bool("update", false, "rewrite testdata")

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// millis returns a time in milliseconds.
func millis(n float64) *durationpb.Duration {
	return durationpb.New(time.Duration(n * float64(time.Millisecond)))
}

// report is a plan in which one model takes the place of another one, and a held one lacks a replica.
func report() *messages.PlanReport {
	return &messages.PlanReport{
		Number: 12, Node: "a", Term: 3, At: timestamppb.New(at), Outcome: "stored",
		Causes: []string{"code: requests wait, and no replica serves", "interval"},
		Models: []*messages.ModelPlan{
			{Name: "chat", Priority: "standard", Replicas: 1, Want: 2, Urgency: "SLO", Missing: 1, Min: 1, Max: 4,
				Why: "ceil(1 × 2.4s / 2s)", Unmet: "b/gpu-0 lacks 3.2 GiB", Later: true, HeldBy: "models.scale by ops",
				SloTtft: millis(2000), Demand: &messages.ModelFigures{
					Rate: new(3.25), Ttft: millis(2412), Tpot: millis(31.234)}},
			{Name: "code", Priority: "critical", Replicas: 2, Want: 2, Min: 0, Max: 2, Why: "requests wait",
				SloTtft: millis(200), SloTpot: millis(30), Pinned: true},
			{Name: "sums", Priority: "batch", HeldBy: "models.park", Max: 2,
				HeldUntil: timestamppb.New(at.Add(time.Hour))},
		},
		Replicas: []*messages.PlannedReplica{
			{Name: "chat-0", Model: "chat", Devices: []string{"a/gpu-0"}, Progress: "serving"},
			{Name: "code-0", Model: "code", Devices: []string{"b/gpu-0", "b/gpu-1"}, New: true, Urgency: "wake",
				Why: "has its weights", After: []string{"sums-0"}},
		},
		Departures: []*messages.PlannedDeparture{
			{Name: "sums-0", Model: "sums", For: "code", Why: "lowest priority", Devices: []string{"b/gpu-0"}},
		},
	}
}

// TestTexts checks how plans, explanations and the history look. With -update, it rewrites testdata.
func TestTexts(t *testing.T) {
	now := report()
	now.Number, now.Outcome, now.LeftOut = 0, "not stored: it was only asked for", 8000
	numbers := &messages.PlanReport{Number: 13, Node: "a", Term: 3, At: timestamppb.New(at), Outcome: "stored",
		Causes: []string{"interval"}, Writes: []*messages.PlanWrite{
			{Model: "chat", From: 2, To: 1}, {Model: "sums", From: 1, To: 1}}}
	quiet := &messages.PlanReport{Node: "a", Term: 3, At: timestamppb.New(at), Causes: []string{"interval"},
		Models: []*messages.ModelPlan{{Name: "code", Priority: "high", Replicas: 1, Want: 1, Min: 1, Max: 1}}}
	for name, got := range map[string]string{
		"stored": Text(report()), "now": Text(now), "quiet": Text(quiet),
		"empty": Text(&messages.PlanReport{Node: "a", Term: 3, At: timestamppb.New(at)}),
		"explain": Explanation(&messages.ModelExplanation{
			At: timestamppb.New(at), Model: report().GetModels()[0], Replicas: report().GetReplicas(),
			Departures: report().GetDepartures(),
			Devices: []*messages.DeviceVerdict{
				{Device: "a/gpu-0", Why: "has a replica of it"},
				{Device: "b/gpu-0", Admits: true, Why: "has its weights"}},
			Attempts: []*messages.FailedAttempt{{
				Device: "b/gpu-1", Failures: 2, Why: "cannot read config.json",
				Until: timestamppb.New(at.Add(time.Minute))}},
		}),
		"history": History([]*messages.PlanReport{report(), numbers}), "history-none": History(nil),
		"paused": Status(&messages.PlannerStatus{Node: "a", Leads: true, Paused: &messages.PlannerPause{
			Paused: true, By: "ops", Why: "upgrade", At: timestamppb.New(at)}}),
		"leads":     Status(&messages.PlannerStatus{Node: "a", Leads: true, Term: 3, Plans: 40, Changed: 2}),
		"no-leader": Status(&messages.PlannerStatus{Node: "a"}),
	} {
		path := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s", path, err, got)
		}
	}
}

// TestLength checks that times are shown with at most three digits.
func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 31234 * time.Microsecond: "31.2ms", 2412 * time.Millisecond: "2.41s", 730 * time.Nanosecond: "1µs",
		200 * time.Millisecond: "200ms", 999999 * time.Microsecond: "1s", 90*time.Second + 4: "1m30s",
	} {
		if got := length(durationpb.New(d)); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
	if got := length(nil); got != "-" {
		t.Errorf("unknown: %q", got)
	}
}

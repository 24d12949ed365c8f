package schedule

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// TestPlanOfImpossibleFigures checks that a snapshot with impossible figures gives a plan that keeps what
// runs.
func TestPlanOfImpossibleFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -3, 1e300})
		count := rapid.SampledFrom([]int{math.MinInt, -1, 0, 7})
		p := &pool{Snapshot: Snapshot{At: began, Devices: []Device{{Name: "a/gpu-0", Node: "a", Memory: 80 * gib,
			KVReserve: number.Draw(t, "reserve"), Utilization: number.Draw(t, "use")}}}}
		times := rapid.SampledFrom([]time.Duration{math.MinInt64, -1, 0, math.MaxInt64})
		p.Models = []Model{{Name: "m", Priority: Priority(rapid.Byte().Draw(t, "priority")), Min: 1,
			Max: 2 + max(0, count.Draw(t, "max")), Group: min(1, count.Draw(t, "group")),
			Sized: true, Weights: gib,
			Need: hbm.Need{Fixed: gib, Min: gib, MinAlone: gib, Max: gib}, SLO: SLO{TTFT: times.Draw(t, "slo")},
			Demand: Demand{Rate: number.Draw(t, "rate"), Recent: number.Draw(t, "recent"), TTFT: times.Draw(t, "ttft"),
				Running: count.Draw(t, "running"), Waiting: count.Draw(t, "waiting"), Pending: count.Draw(t, "pending"),
				Places: count.Draw(t, "places"), KV: number.Draw(t, "kv"), Utilization: number.Draw(t, "utilization"),
				Capacity: number.Draw(t, "capacity"), Oldest: began.Add(times.Draw(t, "oldest"))}}}
		for range 3 {
			plan := Make(p.Snapshot)
			if n := len(plan.Assignments); n != 1 || len(plan.Departures) > 0 {
				t.Fatalf("%d replicas on one device, %+v leave", n, plan.Departures)
			}
			p.Memory = plan.Memory
			p.Replicas = []Placed{{Name: plan.Assignments[0].Replica, Model: "m", Devices: plan.Assignments[0].Devices,
				Progress: Up, Since: p.At}}
			later := rapid.SampledFrom([]time.Duration{-time.Hour, 0, time.Minute, 24 * time.Hour})
			p.At = p.At.Add(later.Draw(t, "later"))
		}
	})
}

// TestPlanOfTooMuch checks that deployments larger than the pool, and ten thousand of them, are refused with
// reasons, and that the most important ones get the devices.
func TestPlanOfTooMuch(t *testing.T) {
	s := Snapshot{At: began, Devices: []Device{
		{Name: "a/gpu-0", Node: "a", Memory: 80 * gib, Utilization: -1},
	}}
	need := hbm.Need{Fixed: gib, Min: gib, MinAlone: gib, Max: gib}
	for i := range 10_000 {
		s.Models = append(s.Models, Model{Name: fmt.Sprintf("m%d", i), Priority: Batch, Min: 1, Max: 1, Sized: true,
			Weights: 30 * gib, Need: need})
	}
	s.Models = append(s.Models,
		Model{Name: "large", Priority: Critical, Min: 1, Max: 1, Sized: true, Weights: 100 * gib, Need: need},
		Model{Name: "groups", Priority: High, Min: 1, Max: 1, Sized: true, Weights: gib, Group: 2, Need: need})
	plan := Make(s)
	if len(plan.Assignments) != 2 || len(plan.Unmet) != 10_000 {
		t.Fatalf("%d replicas, %d unmet", len(plan.Assignments), len(plan.Unmet))
	}
	for i, want := range []string{
		"large lacks 1 (minimum): at least 1 replicas; of 1 devices, 1 short of memory",
		"groups lacks 1 (minimum): at least 1 replicas; of 1 devices, 1 with room, and one node must have 2",
	} {
		if got := plan.unmet()[i]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

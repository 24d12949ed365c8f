package schedule

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// TestPlanOfImpossibleFigures checks that a snapshot with impossible figures gives a plan that keeps what
// runs.
func TestPlanOfImpossibleFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -3, 1e300,
			math.MaxFloat64, math.SmallestNonzeroFloat64})
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
				Capacities: []float64{number.Draw(t, "capacity")}, Oldest: began.Add(times.Draw(t, "oldest"))}}}
		for range 3 {
			plan := Make(p.Snapshot)
			for name, value := range map[string]any{"snapshot": Checked(p.Snapshot), "plan": plan} {
				if _, err := json.Marshal(value); err != nil {
					t.Fatalf("the %s cannot be recorded: %v", name, err)
				}
			}
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

// TestPlanOfDuplicates checks that names that occur twice, devices named twice by a replica and replicas of
// unknown models on unknown devices give the same plan in any order, without names that are assigned twice.
func TestPlanOfDuplicates(t *testing.T) {
	need := hbm.Need{Fixed: gib, Min: gib, MinAlone: gib, Max: gib}
	s := Snapshot{At: began, Devices: []Device{
		{Name: "a/gpu-0", Node: "a", Memory: 80 * gib}, {Name: "a/gpu-0", Node: "a", Memory: 40 * gib},
		{Name: "a/gpu-1", Node: "a", Memory: math.MinInt64, Other: -5, Unused: math.MinInt64},
	}, Models: []Model{
		{Name: "m", Min: 1, Max: 2, Sized: true, Weights: gib, Need: need},
		{Name: "m", Min: 2, Max: 2, Sized: true, Weights: gib, Need: need},
		{Name: "huge", Min: math.MaxInt, Max: math.MaxInt, Group: math.MaxInt, Sized: true, Weights: math.MaxInt64,
			Need: hbm.Need{Fixed: math.MaxInt64, Min: math.MaxInt64, MinAlone: -1, Max: math.MinInt64}},
		{Name: "nothing", Min: math.MaxInt, Max: math.MaxInt, Sized: true},
	}, Replicas: []Placed{
		{Name: "m-0", Model: "m", Devices: []string{"a/gpu-0", "a/gpu-0"}, Progress: Up, Since: began.Add(time.Hour)},
		{Name: "m-0", Model: "m", Devices: []string{"a/gpu-1"}, Progress: Starting, Since: began},
		{Name: "x-0", Model: "x", Devices: []string{"b/gpu-0"}, Progress: 200, Streams: -4,
			After: []string{"x-0", "y"}},
	}, Memory: Memory{
		Models:      map[string]ModelMemory{"m": {LowSince: began.Add(time.Hour), NoMove: began.AddDate(9, 0, 0)}},
		Avoid:       map[string]Attempt{"m on a/gpu-0": {Until: began.AddDate(9, 0, 0)}},
		Substitutes: map[string]Substitute{"m-0": {Replaces: "m-0"}, "y": {Replaces: "m-0", Moves: true}},
	}}
	first := text(t, Make(s))
	slices.Reverse(s.Devices)
	slices.Reverse(s.Models)
	slices.Reverse(s.Replicas)
	plan := Make(s)
	if second := text(t, plan); first != second {
		t.Fatalf("the order of the snapshot changes the plan:\n%s\n%s", first, second)
	}
	named := make(map[string]bool)
	for _, a := range plan.Assignments {
		if named[a.Replica] {
			t.Fatalf("%s is assigned twice", a.Replica)
		}
		named[a.Replica] = true
		if a.Replica == "m-0" && !slices.Equal(a.Devices, []string{"a/gpu-0"}) {
			t.Fatalf("%+v", a)
		}
	}
	if !named["m-0"] {
		t.Fatalf("m-0 does not stay: %+v", plan.Departures)
	}
	if n := count(plan, "nothing"); n > 2*replicasPerDevice {
		t.Fatalf("%d replicas on two devices", n)
	}
	if until := plan.Memory.Models["m"].NoMove; until.After(began.Add(5 * time.Minute)) {
		t.Fatalf("no move before %s", until)
	}
}

// TestPlanOfManyModels checks that ten thousand models on 16 devices are planned in bounded time, on an empty
// pool and on a full one.
func TestPlanOfManyModels(t *testing.T) {
	p := &pool{Snapshot: benchPool(16, 10_000), work: make(map[string]int)}
	for i := range p.Models {
		p.Models[i].Min = i % 2
		p.work[p.Models[i].Name] = p.Models[i].Demand.Running
	}
	p.serve()
	for range 2 {
		plan := Make(p.Snapshot)
		if len(plan.Assignments) == 0 || len(plan.Unmet) < 5000 {
			t.Fatalf("%d replicas, %d unmet", len(plan.Assignments), len(plan.Unmet))
		}
		p.carryOut(plan, time.Minute)
	}
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
		"large lacks 1 (minimum): at least 1 replica; of 1 device, 1 short of memory",
		"groups lacks 1 (minimum): at least 1 replica; of 1 device, 1 with room, but one node must have 2",
	} {
		if got := plan.unmet()[i]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestBackoffWhenTheClockGoesBack checks that a backoff begins again when the clock goes back, and does not become
// the longest one.
func TestBackoffWhenTheClockGoesBack(t *testing.T) {
	p := &pool{Snapshot: Snapshot{At: began, Devices: []Device{{Name: "a/gpu-0", Node: "a", Memory: 80 * gib}},
		Models: []Model{{Name: "m", Min: 1, Max: 1, Sized: true, Weights: gib,
			Need: hbm.Need{Fixed: gib, Min: gib, MinAlone: gib, Max: gib}}},
		Replicas: []Placed{{Name: "m-0", Model: "m", Devices: []string{"a/gpu-0"}, Progress: Starting, Since: began,
			Failure: "it ended"}}}}
	p.Memory = Make(p.Snapshot).Memory
	p.Replicas, p.At = nil, began.Add(-9*time.Hour)
	for wait, n := range map[time.Duration]int{0: 0, 9 * time.Second: 0, 11 * time.Second: 1} {
		later := p.Snapshot
		later.Memory = Make(p.Snapshot).Memory
		later.At = p.At.Add(wait)
		if plan := Make(later); len(plan.Assignments) != n {
			t.Errorf("%d replicas %s after the clock went back, want %d", len(plan.Assignments), wait, n)
		}
	}
}

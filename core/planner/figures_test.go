package planner

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"troupe/core/schedule"
)

// TestImpossibleFigures checks that a plan of impossible figures can be recorded: they are unknown in its snapshot.
func TestImpossibleFigures(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		m, at := New(schedule.Options{}), At{Time: began, Term: 1}
		round := m.Tick(at)[0].(Observe).Round
		m.Viewed(round, &Observation{Nodes: []Node{{Name: "a"}}, Deployments: []Deployment{{Revision: 1, Leader: "a",
			Model: schedule.Model{Name: "m", Min: 1, Max: 1, Sized: true, Demand: schedule.Demand{Rate: x, Recent: x,
				KV: x, Utilization: x}}}}}, at)
		effects := m.Surveyed(round, []Device{{Device: schedule.Device{Name: "a/gpu-0", Node: "a", Memory: gib,
			KVReserve: x, Utilization: x}}}, map[string][]float64{"m": {x}}, at)
		s := effects[len(effects)-1].(MakePlan).Snapshot
		for name, value := range map[string]any{"snapshot": s, "plan": schedule.Make(s)} {
			if _, err := json.Marshal(value); err != nil {
				t.Errorf("%v: the %s cannot be recorded: %v", x, name, err)
			}
		}
		if d := s.Models[0].Demand; d.Rate != -1 || d.KV != -1 {
			t.Errorf("%v: %+v", x, d)
		}
	}
}

// TestCapacities checks that the capacities of the survey are those of the snapshot, and that earlier ones are
// forgotten.
func TestCapacities(t *testing.T) {
	m, at := New(schedule.Options{}), At{Time: began, Term: 1}
	round := m.Tick(at)[0].(Observe).Round
	o := &Observation{Nodes: []Node{{Name: "a"}}}
	for _, name := range []string{"known", "unknown"} {
		o.Deployments = append(o.Deployments, Deployment{Revision: 1, Leader: "a", Model: schedule.Model{Name: name,
			Max: 1, Sized: true, Demand: schedule.Demand{Rate: 1, Capacities: []float64{9}}}})
	}
	m.Viewed(round, o, at)
	effects := m.Surveyed(round, nil, map[string][]float64{"known": {2, 3}}, at)
	s := effects[len(effects)-1].(MakePlan).Snapshot
	if got := s.Models[0].Demand.Capacities; !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("known: %v, want 2 and 3", got)
	}
	if got := s.Models[1].Demand.Capacities; len(got) > 0 {
		t.Errorf("unknown: %v", got)
	}
}

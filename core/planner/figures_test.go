package planner

import (
	"encoding/json"
	"math"
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
				KV: x, Utilization: x, Capacities: []float64{x}}}}}}, at)
		effects := m.Surveyed(round, []Device{{Device: schedule.Device{Name: "a/gpu-0", Node: "a", Memory: gib,
			KVReserve: x, Utilization: x}}}, at)
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

package planner

import (
	"fmt"
	"testing"
	"time"

	"troupe/core/hbm"
	"troupe/core/schedule"
)

// BenchmarkRound measures what the Machine does in a round, without the plan itself: of deployments that are
// new, and of ones that have what they want.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		o := &Observation{Nodes: []Node{{Name: "a", GPUs: []string{"gpu-0"}}}}
		for i := range n {
			m := schedule.Model{Name: fmt.Sprintf("m%d", i), Priority: schedule.Batch, Min: 1, Max: 1, Sized: true,
				Weights: gib, Need: hbm.Need{Fixed: gib, Min: gib, MinAlone: gib},
				Demand: schedule.Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1}}
			o.Deployments = append(o.Deployments, Deployment{Model: m, Revision: 1, Replicas: 1, Leader: "a"})
		}
		devices := []Device{{Device: schedule.Device{Name: "a/gpu-0", Node: "a", Memory: 400 * gib, Utilization: -1}}}
		round := func(m *Machine, at At, plan func(schedule.Snapshot) schedule.Plan) (writes int) {
			round := m.Tick(at)[0].(Observe).Round
			seen := *o
			if effects := m.Viewed(round, &seen, at); len(effects) == 0 {
				return 0
			}
			effects := m.Surveyed(round, devices, nil, at)
			s := effects[len(effects)-1].(MakePlan).Snapshot
			effects = m.Planned(round, &Result{Plan: plan(s)}, at)
			for m.State() == Storing {
				w := effects[len(effects)-1].(Store).Write
				writes++
				d := o.Find(w.Name)
				d.Revision, d.Replicas, d.Intended, d.Assigned, d.Planned = 2, w.To, w.To, w.Replicas, true
				effects = m.Stored(round, Done, 2, "", at)
			}
			return writes
		}
		var plan schedule.Plan
		b.Run(fmt.Sprintf("%d deployments, new", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				for i := range o.Deployments {
					d := &o.Deployments[i]
					d.Revision, d.Planned, d.Assigned = 1, false, nil
				}
				m := New(schedule.Options{})
				b.StartTimer()
				round(m, At{Time: began, Term: 1}, func(s schedule.Snapshot) schedule.Plan {
					b.StopTimer()
					plan = schedule.Make(s)
					b.StartTimer()
					return plan
				})
			}
		})
		m, at := New(schedule.Options{}), At{Time: began, Term: 1}
		again := func(s schedule.Snapshot) schedule.Plan { return schedule.Make(s) }
		round(m, at, again)
		b.Run(fmt.Sprintf("%d deployments, settled", n), func(b *testing.B) {
			for b.Loop() {
				at.Time = at.Time.Add(20 * time.Second)
				round(m, at, func(s schedule.Snapshot) schedule.Plan {
					b.StopTimer()
					defer b.StartTimer()
					return schedule.Make(s)
				})
			}
		})
	}
}

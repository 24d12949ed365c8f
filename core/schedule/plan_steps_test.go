package schedule

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// TestPlanFollowsSteps checks that a step of demand is followed with at most one reversal, that the SLO is
// met in the end if enough replicas are allowed, and that at most one replica is too many.
func TestPlanFollowsSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		carries := rapid.Float64Range(0.5, 20).Draw(t, "requests per second of a replica")
		profiled := rapid.Bool().Draw(t, "profiled")
		p := &pool{Snapshot: Snapshot{At: began}}
		for i := range 16 {
			p.Devices = append(p.Devices, Device{Name: fmt.Sprintf("a/gpu-%02d", i), Node: "a", Memory: 80 * gib,
				Utilization: -1})
		}
		p.Models = []Model{{Name: "m", Priority: Standard, SLO: SLO{TTFT: time.Second}, Min: 1, Max: 16, Sized: true,
			Weights: gib,
			Need:    hbm.Need{Fixed: gib, Min: gib, MinAlone: gib, Max: gib}}}
		m := &p.Models[0]
		var window [6]float64 // rates of the last minute
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			rate := rapid.Float64Range(0.1, 8).Draw(t, "load") * carries
			before, direction, reversals := 0, 0, 0
			history := ""
			for cycle := range 240 {
				n := 0
				for _, r := range p.Replicas {
					if r.Progress == Up {
						n++
					}
				}
				load := 1.0
				if n > 0 {
					load = min(0.95, rate/(float64(n)*carries))
				}
				copy(window[:], window[1:])
				window[len(window)-1] = rate
				mean := 0.0
				for _, r := range window {
					mean += r / float64(len(window))
				}
				m.Demand = Demand{Rate: mean, Recent: rate,
					TTFT: time.Duration(float64(300*time.Millisecond) / (1 - load)), TPOT: -1, KV: -1, Utilization: -1,
					Running: int(load * 32 * float64(n)), Places: 32, Last: p.At}
				if profiled {
					m.Demand.Capacities = []float64{0.7 * carries} // at which the TTFT is 1 s
				}
				plan := Make(p.Snapshot)
				p.carryOut(plan, 10*time.Second)
				for _, c := range plan.changes() {
					history += fmt.Sprintf("%d: n %d rate %.2f, %.2f in the window: %s\n", cycle, n, rate, mean, c)
				}
				switch now := count(plan, "m"); {
				case now > before && direction < 0, now < before && direction > 0:
					reversals++
					fallthrough
				case now != before:
					direction = now - before
					before = now
				}
			}
			if reversals > 1 {
				t.Fatalf("%d reversals with a rate of %.2f, and a replica carries %.2f:\n%s", reversals, rate, carries,
					history)
			}
			need := max(1, ceil(rate/carries/0.7))
			if before < min(need, 16) || before > ceil(1.6*rate/carries/0.7)+1 {
				t.Fatalf("%d replicas with a rate of %.2f, and a replica carries %.2f within the SLO:\n%s", before,
					rate, 0.7*carries, history)
			}
		}
	})
}

// TestPlanIsMonotone checks that one device more does not cost a model of the highest priority a replica, unless it
// gives a minimum of a lower one a place, which comes first.
func TestPlanIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		for i := range p.Devices {
			p.Devices[i].Memory, p.Devices[i].Utilization, p.Devices[i].Island = 80*gib, -1, ""
		}
		top := Batch
		for i := range p.Models {
			p.Models[i].HeldBy, p.Models[i].Group = "", 1
			top = min(top, p.Models[i].Priority)
		}
		missing := func(s Snapshot) (n, minimums int) {
			for _, u := range Make(s).Unmet {
				switch highest := p.model(u.Model).Priority == top; {
				case highest && u.Urgency <= Missed:
					n += u.Missing
				case !highest && u.Urgency == Minimum:
					minimums += u.Missing
				}
			}
			return n, minimums
		}
		before, lacked := missing(p.Snapshot)
		more := p.Snapshot
		more.Devices = append(more.Devices[:len(more.Devices):len(more.Devices)], Device{Name: "z/gpu-0", Node: "z",
			Memory: 80 * gib, KVReserve: 0.3, Utilization: -1})
		if after, lack := missing(more); after > before && lack >= lacked {
			t.Fatalf("%d replicas are missing with one device more, and %d without it:\n%v\n%v", after, before,
				Make(more).changes(), Make(p.Snapshot).changes())
		}
	})
}

package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

const gib = 1 << 30

var began = time.Unix(1_000_000, 0)

// pool is a cluster that carries out plans.
type pool struct {
	Snapshot
	work    map[string]int // sequences by model
	lingers bool           // replicas take until the next plan to leave
}

// drawPool returns a pool with models and no replicas.
func drawPool(t *rapid.T) *pool {
	p := &pool{Snapshot: Snapshot{At: began}, work: make(map[string]int)}
	for node := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		for gpu := range rapid.IntRange(1, 4).Draw(t, "devices") {
			name := fmt.Sprintf("n%d", node)
			p.Devices = append(p.Devices, Device{Name: fmt.Sprintf("%s/gpu-%d", name, gpu), Node: name,
				Island: fmt.Sprint(gpu / 2), Memory: rapid.Int64Range(20, 80).Draw(t, "memory") * gib, KVReserve: 0.3,
				Utilization: drawShare(t, "use")})
		}
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "models") {
		m := Model{Name: fmt.Sprintf("m%d", i), Priority: Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
			Group: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "group"), Min: rapid.IntRange(0, 2).Draw(t, "min"),
			Weights: rapid.Int64Range(1, 40).Draw(t, "weights") * gib,
			Need:    hbm.Need{Fixed: gib, Min: 2 * gib, MinAlone: gib, Max: 40 * gib}, Sized: true}
		m.Max = m.Min + rapid.IntRange(0, 4).Draw(t, "more")
		m.SLO = DefaultSLO(m.Priority)
		m.Pinned = rapid.IntRange(0, 9).Draw(t, "pinned") == 0
		if rapid.IntRange(0, 9).Draw(t, "held") == 0 {
			m.HeldBy = "operator"
		}
		m.Replicas = rapid.IntRange(0, 3).Draw(t, "replicas")
		if i > 0 && rapid.IntRange(0, 4).Draw(t, "shares") == 0 {
			other := &p.Models[i-1]
			other.Files = "of " + other.Name
			m.Files, m.Weights, m.Group = other.Files, other.Weights, other.Group
		}
		p.Models = append(p.Models, m)
	}
	p.Options.Policy = rapid.SampledFrom(Policies()).Draw(t, "policy")
	p.Options.Placement = rapid.SampledFrom(Placements()).Draw(t, "placement")
	p.draw(t)
	return p
}

func drawShare(t *rapid.T, label string) float64 {
	return rapid.SampledFrom([]float64{-1, 0, 0.1, 0.3, 0.5, 0.9}).Draw(t, label)
}

// draw draws the demand of all models.
func (p *pool) draw(t *rapid.T) {
	for i := range p.Models {
		m := &p.Models[i]
		p.work[m.Name] = rapid.SampledFrom([]int{0, 0, 1, 10, 60, 200}).Draw(t, "work")
		m.Demand = Demand{Rate: rapid.SampledFrom([]float64{-1, 0, 1, 5}).Draw(t, "rate"), Recent: -1, TTFT: -1,
			TPOT: -1, KV: drawShare(t, "kv"), Utilization: drawShare(t, "use"), Last: p.At,
			Places: rapid.SampledFrom([]int{0, 16, 64}).Draw(t, "places")}
		if rapid.Bool().Draw(t, "measured") {
			m.Demand.TTFT = time.Duration(rapid.IntRange(1, 3000).Draw(t, "ttft")) * time.Millisecond
		}
		if p.work[m.Name] == 0 {
			m.Demand.Last = time.Time{}
		}
	}
	p.serve()
}

// serve distributes the sequences: they run if a replica serves, and are pending else.
func (p *pool) serve() {
	for i := range p.Models {
		m := &p.Models[i]
		n, up := p.work[m.Name], 0
		for _, r := range p.Replicas {
			if r.Model == m.Name && r.Progress == Up {
				up++
			}
		}
		m.Demand.Running, m.Demand.Pending, m.Demand.Oldest = n, 0, time.Time{}
		if up == 0 {
			m.Demand.Running, m.Demand.Pending = 0, n
			if n > 0 {
				m.Demand.Oldest = p.At
			}
		}
	}
}

// carryOut makes the replicas leave that are to leave, and the others start, and waits for a while.
func (p *pool) carryOut(plan Plan, wait time.Duration) {
	p.Memory = plan.Memory
	leaving := make(map[string]bool)
	for _, d := range plan.Departures {
		leaving[d.Replica] = true
	}
	p.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), func(r Placed) bool {
		return leaving[r.Name] && (!p.lingers || r.Progress == Leaving)
	})
	for i := range p.Replicas {
		switch r := &p.Replicas[i]; {
		case leaving[r.Name]:
			r.Progress, r.Since = Leaving, p.At
		case r.Progress < Up && !p.waits(*r):
			r.Progress, r.Since = Up, p.At
		}
	}
	for _, a := range plan.Assignments {
		if a.New {
			r := Placed{Name: a.Replica, Model: a.Model, Devices: a.Devices, Progress: Starting, Since: p.At,
				After: a.After}
			if p.waits(r) {
				r.Progress = Assigned
			}
			p.Replicas = append(p.Replicas, r)
		}
	}
	p.At = p.At.Add(wait)
	p.serve()
}

// waits reports whether a replica waits for others to leave.
func (p *pool) waits(r Placed) bool {
	return slices.ContainsFunc(p.Replicas, func(o Placed) bool { return slices.Contains(r.After, o.Name) })
}

func (p *pool) model(name string) *Model {
	i := slices.IndexFunc(p.Models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Models[i]
}

func count(plan Plan, model string) (n int) {
	for _, a := range plan.Assignments {
		if a.Model == model {
			n++
		}
	}
	return n
}

// staying returns the number of replicas of a model that are not on draining devices.
func (p *pool) staying(plan Plan, model string) (n int) {
	for _, a := range plan.Assignments {
		if a.Model == model && !slices.ContainsFunc(p.Devices, func(d Device) bool {
			return (d.Draining || d.Quarantined) && slices.Contains(a.Devices, d.Name)
		}) {
			n++
		}
	}
	return n
}

// TestPlanInvariants checks the invariants that are listed in doc.go, by name.
func TestPlanInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		p.lingers = rapid.Bool().Draw(t, "lingers")
		for range rapid.IntRange(1, 8).Draw(t, "cycles") {
			plan := Make(p.Snapshot)
			checkPlan(t, p, plan)
			p.carryOut(plan, 10*time.Second)
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0:
				p.draw(t)
			case 1:
				d := &p.Devices[rapid.IntRange(0, len(p.Devices)-1).Draw(t, "device")]
				d.Failed, d.Draining = rapid.Bool().Draw(t, "failed"), rapid.Bool().Draw(t, "draining")
				d.Silent, d.Quarantined = rapid.Bool().Draw(t, "silent"), rapid.Bool().Draw(t, "quarantined")
			case 2:
				p.At = p.At.Add(10 * time.Minute)
			case 3:
				if len(p.Replicas) > 0 {
					p.Replicas[rapid.IntRange(0, len(p.Replicas)-1).Draw(t, "replica")].Failure = "no memory"
				}
			case 4:
				p.outdate(rapid.SampledFrom(p.Models).Draw(t, "model"), rapid.Bool().Draw(t, "files"))
			case 5:
				m := &p.Models[rapid.IntRange(0, len(p.Models)-1).Draw(t, "model")]
				m.Sized, m.Replicas = rapid.Bool().Draw(t, "sized"), rapid.IntRange(0, 3).Draw(t, "replicas")
			}
		}
	})
}

// outdate makes the replicas of a model outdated, perhaps since its files changed.
func (p *pool) outdate(m Model, files bool) {
	for i := range p.Replicas {
		if r := &p.Replicas[i]; r.Model == m.Name {
			if r.Outdated = true; files {
				r.Files, r.Weights = "old files of "+m.Name, m.Weights+gib
			}
		}
	}
}

func checkPlan(t *rapid.T, p *pool, plan Plan) {
	before := make(map[string]int)
	there := make(map[string]Placed)
	for _, r := range p.Replicas {
		there[r.Name] = r
		before[r.Model]++
	}
	named := make(map[string]bool)
	on := make(map[string][]Assignment)
	for _, a := range plan.Assignments {
		if named[a.Replica] {
			t.Fatalf("unique: %s is assigned twice", a.Replica)
		}
		named[a.Replica] = true
		m := p.model(a.Model)
		if a.New && (len(a.Devices) != m.Group || a.Why == "") {
			t.Fatalf("whole groups, explained: %+v", a)
		}
		nodes := make(map[string]bool)
		for _, name := range a.Devices {
			d := p.Devices[slices.IndexFunc(p.Devices, func(d Device) bool { return d.Name == name })]
			nodes[d.Node] = true
			on[name] = append(on[name], a)
			if a.New && (d.Failed || d.Draining || d.Silent || d.Quarantined) {
				t.Fatalf("usable: %+v is on a device that is not", a)
			}
		}
		if len(nodes) != 1 {
			t.Fatalf("whole groups: %+v", a)
		}
		if r, was := there[a.Replica]; a.New == was || was && !slices.Equal(r.Devices, a.Devices) {
			t.Fatalf("kept: %+v was %+v", a, r)
		}
	}
	for _, d := range p.Devices {
		checkMemory(t, p, d, on[d.Name])
	}
	for _, d := range plan.Departures {
		r, was := there[d.Replica]
		if !was || named[d.Replica] || d.Why == "" {
			t.Fatalf("departures: %+v", d)
		}
		checkDeparture(t, p, d, r)
	}
	if len(there) != len(plan.Departures)+len(plan.Assignments)-newOnes(plan) {
		t.Fatalf("complete: %d replicas, %+v", len(there), plan)
	}
	for _, m := range p.Models {
		n, most := count(plan, m.Name), m.Max
		if m.HeldBy != "" {
			most = max(most, m.Replicas)
		}
		if n > max(most+1, before[m.Name]) {
			t.Fatalf("range: %d replicas of %+v", n, m)
		}
		checkSubstitutes(t, p, plan, m)
		checkRemovals(t, there, plan, m)
	}
	checkMoments(t, p, plan)
	checkMinimums(t, p, plan)
	shuffled := p.Snapshot
	random := rand.New(rand.NewPCG(1, 2))
	shuffled.Devices, shuffled.Models = slices.Clone(p.Devices), slices.Clone(p.Models)
	shuffled.Replicas = slices.Clone(p.Replicas)
	random.Shuffle(len(shuffled.Devices), func(i, j int) {
		shuffled.Devices[i], shuffled.Devices[j] = shuffled.Devices[j], shuffled.Devices[i]
	})
	random.Shuffle(len(shuffled.Models), func(i, j int) {
		shuffled.Models[i], shuffled.Models[j] = shuffled.Models[j], shuffled.Models[i]
	})
	random.Shuffle(len(shuffled.Replicas), func(i, j int) {
		shuffled.Replicas[i], shuffled.Replicas[j] = shuffled.Replicas[j], shuffled.Replicas[i]
	})
	if a, b := text(t, plan), text(t, Make(shuffled)); a != b {
		t.Fatalf("same: the order of the snapshot changes the plan:\n%s\n%s", a, b)
	}
}

func text(t interface{ Fatal(...any) }, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func newOnes(plan Plan) (n int) {
	for _, a := range plan.Assignments {
		if a.New {
			n++
		}
	}
	return n
}

// TestPlanSettles checks that the plan stops changing if the demand is constant and models of the same
// priority do not take turns.
func TestPlanSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		for i := range p.Models {
			p.Models[i].WakeWait = -1
		}
		last, changes := 0, ""
		for cycle := range 200 {
			plan := Make(p.Snapshot)
			if len(plan.Departures)+newOnes(plan) > 0 {
				last = cycle
				changes += fmt.Sprintf("%d: %v\n", cycle, plan.changes())
			}
			p.carryOut(plan, 10*time.Second)
		}
		if last > 120 {
			t.Fatalf("settled: the plan still changed in cycle %d:\n%s", last, changes[max(0, len(changes)-2000):])
		}
	})
}

// changes returns what a plan changes, and why.
func (p Plan) changes() (all []string) {
	for _, d := range p.Departures {
		all = append(all, fmt.Sprintf("%s leaves: %s", d.Replica, d.Why))
	}
	for _, a := range p.Assignments {
		if a.New {
			all = append(all, fmt.Sprintf("%s on %v: %s", a.Replica, a.Devices, a.Why))
		}
	}
	return all
}

package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// checkSubstitutes checks that no more replicas are replaced than others serve in their place. Where there is
// no room beside an outdated one, one of them may leave first.
func checkSubstitutes(t *rapid.T, p *pool, plan Plan, m Model) {
	before, after, want := 0, 0, 0
	var first []Placed
	gone := make(map[string]bool)
	for _, d := range plan.Departures {
		r := p.Replicas[slices.IndexFunc(p.Replicas, func(r Placed) bool { return r.Name == d.Replica })]
		switch {
		case d.Model != m.Name:
			continue
		case strings.Contains(d.Why, "no room for a substitute beside it"):
			first = append(first, r)
		case d.Surplus:
		case d.For == "" && r.Progress == Up && strings.Contains(d.Why, "serve"):
		default:
			return // it leaves for another reason
		}
		gone[d.Replica] = true
	}
	for _, w := range plan.Wants {
		if w.Model == m.Name {
			want = w.Replicas
		}
	}
	for _, r := range p.Replicas {
		if r.Model == m.Name && r.Progress == Up {
			before++
			if !gone[r.Name] {
				after++
			}
		}
	}
	apart := slices.ContainsFunc(first, func(r Placed) bool {
		return !r.Outdated || r.Files != first[0].Files || r.Devices[0] != first[0].Devices[0]
	})
	if apart || after < min(before, want)-len(first) {
		t.Fatalf("substitute first: of %d replicas of %s that serve, %d stay: %+v", before, m.Name, after,
			plan.Departures)
	}
}

// checkRemovals checks that a replica that serves is surplus only if none stays that does not serve, unless
// that one is a substitute.
func checkRemovals(t *rapid.T, there map[string]Placed, plan Plan, m Model) {
	for _, d := range plan.Departures {
		if d.Model != m.Name || !d.Surplus || there[d.Replica].Progress < Up || there[d.Replica].Outdated {
			continue
		}
		for _, a := range plan.Assignments {
			r := there[a.Replica]
			if a.Model == m.Name && !a.New && r.Progress < Up && a.Replaces == "" {
				t.Fatalf("removal order: %+v is surplus, and %+v stays", d, r)
			}
		}
	}
}

// checkMoments checks the memory of devices after the change of each model, in any order. A replica that waits for
// others takes no memory before they have left.
func checkMoments(t *rapid.T, p *pool, plan Plan) {
	now := make(map[string]Placed)
	for _, r := range p.Replicas {
		now[r.Name] = r
	}
	isNew := make(map[string]bool)
	var names []string
	for _, w := range plan.Wants {
		names = append(names, w.Model)
	}
	for _, name := range rapid.Permutation(names).Draw(t, "order of changes") {
		for _, d := range plan.Departures {
			if d.Model == name {
				delete(now, d.Replica)
			}
		}
		for _, a := range plan.Assignments {
			if a.Model != name || !a.New {
				continue
			}
			isNew[a.Replica] = true
			now[a.Replica] = Placed{Name: a.Replica, Model: name, Devices: a.Devices, After: a.After}
			for _, first := range a.After {
				if !slices.ContainsFunc(plan.Departures, func(d Departure) bool { return d.Replica == first }) {
					t.Fatalf("moments: %s waits for %s, which stays", a.Replica, first)
				}
			}
		}
		for _, d := range p.Devices {
			checkMoment(t, p, d, now, isNew)
		}
	}
}

// checkMoment checks the memory of a device with those replicas that do not wait, if one of them is new.
func checkMoment(t *rapid.T, p *pool, d Device, now map[string]Placed, isNew map[string]bool) {
	b := hbm.NewBudget(d.Memory, d.KVReserve)
	loaded := make(map[string]bool)
	news, n := false, 0
	for _, r := range now {
		m := p.model(r.Model)
		waits := slices.ContainsFunc(r.After, func(name string) bool { _, still := now[name]; return still })
		if !slices.Contains(r.Devices, d.Name) || waits {
			continue
		}
		need := m.Need
		if files, weights := r.files(m); !loaded[files] {
			need.Fixed += weights
			loaded[files] = true
		}
		b, n, news = b.With(need), n+1, news || isNew[r.Name]
	}
	if short := b.Fixed + max(b.Reserve, b.Min) - b.Total; news && n > 1 && short > 0 {
		t.Fatalf("moments: %s is short of %d with %+v", d.Name, short, now)
	}
}

// TestMovesEnd checks that the moves of replicas end, and that each one makes the replicas of a model more
// evenly spread, or leaves a device that is shared for one that is not.
func TestMovesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		for i := range p.Models {
			m := &p.Models[i]
			m.HeldBy, m.Pinned, m.Group, m.Min, m.Max = "", false, 1, 0, 0
			for range rapid.IntRange(0, 4).Draw(t, "replicas") {
				d := rapid.SampledFrom(p.Devices).Draw(t, "on")
				p.Replicas = append(p.Replicas, Placed{Name: m.Name + "-" + string(rune('a'+m.Max)), Model: m.Name,
					Devices: []string{d.Name}, Progress: Up, Since: p.At.Add(-time.Hour)})
				m.Min, m.Max = m.Min+1, m.Max+1
			}
		}
		p.serve()
		moves := 0
		for cycle := range 100 {
			before := spreadOf(p)
			plan := Make(p.Snapshot)
			for _, a := range plan.Assignments {
				if a.New {
					moves++
				}
			}
			p.carryOut(plan, 30*time.Second)
			if after := spreadOf(p); len(plan.Departures) > 0 && slices.Compare(after, before) > 0 {
				t.Fatalf("rebalance: a move in cycle %d makes %v of %v: %v", cycle, after, before, plan.changes())
			}
			if cycle > 90 && len(plan.changes()) > 0 {
				t.Fatalf("rebalance: replicas still move in cycle %d: %v", cycle, plan.changes())
			}
		}
		// Up to 4 replicas of a model move to another device of their node, and then to another node.
		if most := 2 * 4 * len(p.Models) * len(p.Models); moves > most {
			t.Fatalf("rebalance: %d moves", moves)
		}
	})
}

// spreadOf returns the sums of squares of the replicas of a model per device and per node, summed over the
// models.
func spreadOf(p *pool) []int {
	devices, nodes := make(map[string]int), make(map[string]int)
	for _, r := range p.Replicas {
		if r.Progress < Up {
			continue
		}
		node, _, _ := strings.Cut(r.Devices[0], "/")
		devices[r.Model+r.Devices[0]]++
		nodes[r.Model+node]++
	}
	sum := make([]int, 2)
	for _, n := range devices {
		sum[0] += n * n
	}
	for _, n := range nodes {
		sum[1] += n * n
	}
	return sum
}

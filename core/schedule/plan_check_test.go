package schedule

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// checkMemory checks the memory of a device and that critical models are alone.
func checkMemory(t *rapid.T, p *pool, d Device, all []Assignment) {
	b := hbm.NewBudget(d.Memory, d.KVReserve)
	loaded, models := make(map[string]bool), make(map[string]bool)
	news, critical := false, ""
	for _, a := range all {
		m := p.model(a.Model)
		need := m.Need
		files, weights := p.replica(a.Replica).files(m)
		if !loaded[files] {
			need.Fixed += weights
		}
		loaded[files], models[a.Model] = true, true
		b = b.With(need)
		news = news || a.New
		if m.Priority == Critical {
			critical = a.Model
		}
	}
	if short := b.Fixed + max(b.Reserve, b.Min) - b.Total; news && len(all) > 1 && short > 0 {
		t.Fatalf("memory: %s is short of %d: %+v", d.Name, short, all)
	}
	if critical != "" && len(models) > 1 && news {
		t.Fatalf("critical: %s shares %s: %+v", critical, d.Name, all)
	}
}

// files returns what the weights of a replica were read from, and their bytes.
func (r *Placed) files(m *Model) (string, int64) {
	if r != nil && r.Outdated && r.Files != "" {
		return r.Files, r.Weights
	}
	return cmp.Or(m.Files, "of "+m.Name), m.Weights
}

// checkDeparture checks that a replica leaves for a model that may take its place.
func checkDeparture(t *rapid.T, p *pool, d Departure, r Placed) {
	if d.For == "" {
		return
	}
	m, v := p.model(d.For), p.model(d.Model)
	switch {
	case v.Pinned || v.HeldBy != "":
		t.Fatalf("pinned, held: %+v", d)
	case v.Priority > m.Priority:
	case v.Demand.sequences() == 0 && v.Demand.Rate <= 0:
	case v.Priority < m.Priority:
		t.Fatalf("no preemption upwards: %+v", d)
	case m.Demand.Pending == 0 || p.At.Sub(r.Since) < 30*time.Second:
		t.Fatalf("no preemption sideways: %+v", d)
	}
}

// checkMinimums checks that a model below its minimum lost no replica but to a more important minimum, and
// that no replica was added for less than a minimum in its place.
func checkMinimums(t *rapid.T, p *pool, plan Plan) {
	for _, m := range p.Models {
		n, gone := p.staying(plan, m.Name), 0
		for _, d := range plan.Departures {
			if d.Model != m.Name || d.For == "" {
				continue
			}
			taker := p.model(d.For)
			least := taker.Min
			if taker.HeldBy != "" {
				least = taker.Replicas
			}
			if n < min(m.Min, m.Max) && !(taker.Priority < m.Priority && p.staying(plan, taker.Name) <= least) {
				gone++
			}
		}
		if gone > 0 {
			t.Fatalf("minimums: %s has %d replicas, at least %d wanted: %+v", m.Name, n, m.Min, plan.Departures)
		}
	}
}

// replica returns the replica of a name, or nil.
func (p *pool) replica(name string) *Placed {
	i := slices.IndexFunc(p.Replicas, func(r Placed) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Replicas[i]
}

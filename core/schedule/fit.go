package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/core/units"
)

// refusal is why a device does not take a replica. The zero refusal: it does.
type refusal struct {
	kind   string // for counting
	detail string
	final  bool // no other replica could make room
}

// admits returns why a device does not take a replica of a model, beside the replicas for which stays
// holds.
func (w *world) admits(m *model, d *device, u Urgency, stays func(*replica) bool) refusal {
	avoid := w.memory.Avoid[avoidKey(m.Name, d.Name)]
	switch {
	case d.Failed:
		return refusal{"failed", "", true}
	case d.Draining:
		return refusal{"draining", "", true}
	case w.at.Before(avoid.Until):
		return refusal{"refused it lately", avoid.Why, true}
	}
	busy := false
	for _, r := range d.replicas {
		switch {
		case !stays(r):
		case r.model == m && u != Minimum:
			return refusal{"with a replica of it", "", true}
		case r.model == m, r.model.Priority == Batch && (m.Priority == High || m.Priority == Standard):
		case r.model.Priority == Critical:
			return refusal{"of critical models", r.Model, true}
		case m.Priority == Critical:
			return refusal{"in use by other models", r.Model, false}
		default:
			busy = true
		}
	}
	if most := w.mostUse(m, u); busy && (d.Utilization < 0 && most < 1 || d.Utilization >= most) {
		return refusal{"in use by other models", fmt.Sprintf("%.0f%%", 100*d.Utilization), false}
	}
	if short := d.short(m, stays); short > 0 {
		alone := d.short(m, func(*replica) bool { return false })
		return refusal{"short of memory", units.FormatBytes(short), alone > 0}
	}
	return refusal{}
}

// mostUse returns the utilization below which a device with other models takes a replica.
func (w *world) mostUse(m *model, u Urgency) float64 {
	switch {
	case u <= Wake:
		return 2 // at any utilization: turns divide the device
	case m.Priority == Batch:
		return w.options.FillBelow
	}
	return w.options.ShareBelow
}

// here reports whether a replica is on its devices when the plan has been carried out.
func here(r *replica) bool { return !r.leaves }

// preference is what is compared between devices that admit a replica. A lower value is better.
type preference struct {
	siblings int     // replicas of the model
	shared   int     // replicas of other models
	weights  int     // 0: on the device, 1: in host memory of the node, 2: farther
	use      float64 // expected utilization; 0.5 if it is unknown
	spare    int64   // bytes less than those of an empty device
	node     int     // replicas of the model on the node
}

func (w *world) preferenceOf(m *model, d *device) preference {
	p := preference{weights: 2, use: 0.5}
	for _, r := range d.replicas {
		switch {
		case r.leaves:
		case r.model == m:
			p.siblings++
		default:
			p.shared++
		}
	}
	for _, r := range m.replicas {
		if r.on[0].Node == d.Node {
			p.node++
		}
	}
	if slices.Contains(d.Images, m.Name) {
		p.weights = 1
	}
	if slices.Contains(d.Weights, m.Name) {
		p.weights = 0
	}
	if d.Utilization >= 0 {
		p.use = d.Utilization
	}
	if p.shared == 0 {
		p.use = 0
	}
	b := d.budget(here)
	p.spare = b.Fixed + b.Min
	return p
}

// compare orders preferences. Weights on the device count more than spare memory and than the nodes of
// other replicas, and less than a device without other models.
func (p preference) compare(q preference) int {
	return cmp.Or(cmp.Compare(p.siblings, q.siblings), cmp.Compare(min(p.shared, 1), min(q.shared, 1)),
		cmp.Compare(p.weights, q.weights), cmp.Compare(p.use, q.use), cmp.Compare(p.node, q.node),
		cmp.Compare(p.spare, q.spare))
}

// String returns what speaks for the device.
func (p preference) String() string {
	place := [...]string{
		"its weights are there", "its weights are in host memory", "its weights are on disk",
	}[p.weights]
	if p.shared == 0 {
		return place + ", no other model"
	}
	return fmt.Sprintf("%s, shared with %d replicas of other models", place, p.shared)
}

// group returns the best devices for a replica of those for which admit holds, or none.
func (w *world) group(m *model, admit func(*device) bool) (best []*device, why string) {
	var like []preference
	better := func(devices []*device, prefs []preference) bool {
		if best == nil {
			return true
		}
		if c := cmp.Compare(islands(devices), islands(best)); c != 0 {
			return c < 0
		}
		return slices.CompareFunc(prefs, like, preference.compare) < 0
	}
	for _, of := range w.clusters(m) {
		type candidate struct {
			*device
			preference
		}
		var all []candidate
		for _, d := range of {
			if admit(d) {
				all = append(all, candidate{d, w.preferenceOf(m, d)})
			}
		}
		if len(all) < m.Group {
			continue
		}
		slices.SortStableFunc(all, func(a, b candidate) int { return a.compare(b.preference) })
		devices, prefs := make([]*device, m.Group), make([]preference, m.Group)
		for i, c := range all[:m.Group] {
			devices[i], prefs[i] = c.device, c.preference
		}
		if better(devices, prefs) {
			best, like = devices, prefs
		}
	}
	if best == nil {
		return nil, ""
	}
	return best, like[0].String()
}

// clusters returns the sets of devices of which one replica may use several: those of an island, and
// those of a node. A replica on one device may use any.
func (w *world) clusters(m *model) (all [][]*device) {
	if m.Group == 1 {
		return [][]*device{w.devices}
	}
	type place struct{ node, island string }
	index := make(map[place]int)
	for _, d := range w.devices {
		for _, p := range []place{{d.Node, d.Island}, {d.Node, "any"}} {
			i, seen := index[p]
			if !seen {
				i = len(all)
				index[p], all = i, append(all, nil)
			}
			all[i] = append(all[i], d)
		}
	}
	return all
}

// islands returns the number of islands of a group.
func islands(group []*device) (n int) {
	for i, d := range group {
		if !slices.ContainsFunc(group[:i], func(o *device) bool { return o.Island == d.Island }) {
			n++
		}
	}
	return n
}

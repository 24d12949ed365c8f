package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/core/units"
)

// request is a replica that needs devices.
type request struct {
	*model
	urgency  Urgency
	siblings bool     // devices with another replica of the model will do
	replaces *replica // it may take the device of this one, whatever else is there; nil: none
	why      string
}

// refusal is why a device does not take a replica. The zero refusal: it does.
type refusal struct {
	kind   string // for counting
	detail string
	final  bool // no other replica could make room
}

// replicasPerDevice is the largest number of replicas on a device.
const replicasPerDevice = 256

// admits returns why a device does not take a replica beside those for which stays holds.
func (w *world) admits(q request, d *device, stays func(*replica) bool) refusal {
	if r := w.usable(q, d); r.kind != "" {
		return r
	}
	if r := w.neighbors(q, d, stays); r.kind != "" {
		return r
	}
	if short := d.short(q.model, stays); short > 0 {
		alone := d.short(q.model, func(*replica) bool { return false })
		return refusal{shortOfMemory, units.FormatBytes(short), alone > 0}
	}
	return refusal{}
}

// Kinds of refusals that are used in several places.
const (
	shortOfMemory = "short of memory"
	refusedLately = "with a start that failed lately"
	didNotAnswer  = "not answering"
	failed        = "failed"
	quarantined   = "quarantined"
	justBack      = "just back, with replicas not listed yet"
)

// usable returns why a device takes no replica of a model now, whatever other replicas it has.
func (w *world) usable(q request, d *device) refusal {
	if r := w.works(q.model, d); r.kind != "" {
		return r
	}
	switch {
	case slices.Contains(d.Returning, q.Name):
		return refusal{justBack, "", true}
	case w.avoids(q.model, d):
		return refusal{refusedLately, w.memory.Avoid[avoidKey(q.Name, d.Name)].Why, true}
	case q.Pinned && q.replaces != nil && !slices.Contains(q.replaces.on, d):
		return refusal{"other than where it is pinned", "", true}
	case len(d.replicas) >= replicasPerDevice:
		return refusal{"full", "", true}
	}
	return refusal{}
}

// avoids reports whether a start of a model on a device failed lately.
func (w *world) avoids(m *model, d *device) bool {
	return len(w.memory.Avoid) > 0 && w.at.Before(w.memory.Avoid[avoidKey(m.Name, d.Name)].Until)
}

// works returns why a device takes no replica of a model at all.
func (w *world) works(m *model, d *device) refusal {
	switch {
	case d.Silent:
		return refusal{didNotAnswer, "", true}
	case d.Engine.OrNative() != m.Engine.OrNative():
		return refusal{"with other engines", "", true}
	case len(m.Devices) > 0 && !slices.Contains(m.Devices, d.Name):
		return refusal{"not allowed for the model", "", true}
	case d.Failed:
		return refusal{failed, "", true}
	case d.Quarantined:
		return refusal{quarantined, "", true}
	case d.Draining || d.Leaving:
		return refusal{"draining", "", true}
	}
	return refusal{}
}

// neighbors returns why a replica does not join those on a device.
func (w *world) neighbors(q request, d *device, stays func(*replica) bool) refusal {
	own := q.replaces != nil && slices.Contains(q.replaces.on, d)
	busy := false
	for _, r := range d.replicas {
		switch {
		case !stays(r) || r.model == nil:
		case r.model == q.model && !q.siblings && r != q.replaces:
			return refusal{"with a replica of the model", "", true}
		case r.model == q.model, r.model.Priority == Batch && (q.Priority == High || q.Priority == Standard):
		case r.model.Priority == Critical:
			return refusal{"used by a critical model", r.Placed.Model, true}
		case q.Priority == Critical:
			return refusal{"used by other models", r.Placed.Model, false}
		default:
			busy = busy || !own
		}
	}
	if most := w.mostUse(q); busy && (d.Utilization < 0 && most < 1 || d.Utilization >= most) {
		use := "utilization unknown"
		if d.Utilization >= 0 {
			use = fmt.Sprintf("%.0f%%", 100*d.Utilization)
		}
		return refusal{"used by other models", use, false}
	}
	return refusal{}
}

// mostUse returns the utilization below which a device with other models takes a replica.
func (w *world) mostUse(q request) float64 {
	switch {
	case q.urgency <= Wake:
		return 2 // at any utilization: turns divide the device
	case q.Priority == Batch:
		return w.options.FillBelow
	}
	return w.options.ShareBelow
}

// here reports whether a replica stays or starts by the plan.
func here(r *replica) bool { return !r.leaves }

// preference has the figures by which devices that admit a replica are compared. A lower value is better.
type preference struct {
	siblings int     // replicas of the model, without the one that is replaced
	shared   int     // replicas of other models
	node     int     // replicas of the model on the node, likewise
	weights  Where   // the nearest place that has the weights; a higher value is better
	use      float64 // utilization; 0 without replicas of other models, 0.5 if unknown
	spare    int64   // bytes that the device's replicas need at least
}

// preferenceOf returns the preference for a device. nodes has the number of replicas of the model by node.
func (w *world) preferenceOf(q request, d *device, nodes map[string]int) preference {
	p := preference{weights: d.near[q.Name], use: 0.5, node: nodes[d.Node]}
	for _, r := range d.replicas {
		switch {
		case r.leaves || r == q.replaces:
		case r.model == q.model:
			p.siblings++
		default:
			p.shared++
		}
	}
	if q.replaces != nil && q.replaces.on[0].Node == d.Node {
		p.node--
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

// compare orders preferences, best first, by: fewest replicas of the model on the device; no replica of another
// model; fewest replicas of the model on the node; nearest weights; lowest utilization; fewest bytes that the
// device's replicas need.
func (p preference) compare(q preference) int {
	return cmp.Or(cmp.Compare(p.siblings, q.siblings), cmp.Compare(min(p.shared, 1), min(q.shared, 1)),
		cmp.Compare(p.node, q.node), cmp.Compare(q.weights, p.weights), cmp.Compare(p.use, q.use),
		cmp.Compare(p.spare, q.spare))
}

// compareLoad orders preferences by the load of the devices alone.
func (p preference) compareLoad(q preference) int {
	return cmp.Or(cmp.Compare(p.use, q.use), cmp.Compare(p.siblings+p.shared, q.siblings+q.shared))
}

// compare returns the comparison that Options.Placement names.
func (o Options) compare() func(p, q preference) int {
	if o.Placement == "least-loaded" {
		return preference.compareLoad
	}
	return preference.compare
}

// String returns the reasons for the device.
func (p preference) String() string {
	place := cmp.Or(p.weights.String(), "its node does not have the weights")
	if p.shared == 0 {
		return place + ", and no other model uses it"
	}
	if p.shared == 1 {
		return place + ", and 1 replica of another model uses it"
	}
	return fmt.Sprintf("%s, and %d replicas of other models use it", place, p.shared)
}

// group returns the best devices for a replica beside the replicas for which stays holds, or none.
func (w *world) group(q request, stays func(*replica) bool) (best []*device, why string) {
	return w.groupOf(q, stays, func(*device) bool { return true })
}

// groupOf returns the best devices for a replica of those for which eligible holds, or none.
func (w *world) groupOf(q request, stays func(*replica) bool, eligible func(*device) bool) (best []*device,
	why string,
) {
	m, nodes, compare := q.model, q.siblingsOn(), w.options.compare()
	var like []preference
	better := func(devices []*device, prefs []preference) bool {
		if best == nil {
			return true
		}
		if c := cmp.Compare(islands(devices), islands(best)); c != 0 {
			return c < 0
		}
		return slices.CompareFunc(prefs, like, compare) < 0
	}
	for _, of := range w.clusters(m) {
		type candidate struct {
			*device
			preference
		}
		var all []candidate
		for _, d := range of {
			if eligible(d) && w.admits(q, d, stays).kind == "" {
				all = append(all, candidate{d, w.preferenceOf(q, d, nodes)})
			}
		}
		if len(all) < m.Group {
			continue
		}
		order := func(a, b candidate) int { return compare(a.preference, b.preference) }
		if m.Group == 1 {
			all[0] = slices.MinFunc(all, order)
		} else {
			slices.SortStableFunc(all, order)
		}
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

// clusters returns the sets of devices that a replica with several devices may use: those of an island, and those of
// a node. A replica with one device may use any.
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

package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"troupe/core/units"
)

// phases has the urgencies that each phase of a plan serves.
var phases = [...][]Urgency{{Minimum}, {Wake, Missed}, {Headroom}, {Fill}}

// Make returns the plan for a snapshot.
func Make(s Snapshot) Plan { return planned(s).plan() }

// planned makes the decisions of a plan and returns the pool with them.
func planned(s Snapshot) *world {
	w := newWorld(Checked(s))
	for _, m := range w.models {
		w.decide(m)
	}
	for _, m := range w.models {
		w.retire(m)
		w.shrink(m)
	}
	for p := range phases {
		w.phase(p)
	}
	for _, m := range w.models {
		w.renew(m)
	}
	w.rebalance()
	return w
}

// decide asks the policy how many replicas a model wants, or takes the number that an operator holds.
func (w *world) decide(m *model) {
	w.memory.revise(m.Name, m.Revision, w.devices)
	memory := w.memory.Models[m.Name]
	v := view{Model: m.Model, now: w.at, options: w.options, memory: &memory, have: m.have(),
		up: min(m.have(), m.serving()), idle: m.waiting(), settled: m.settled()}
	v.learn()
	if m.want = v.limit(w.policy.want(v)); m.held {
		m.want = Want{m.Replicas, Minimum, "held by " + m.HeldBy + " at " + units.Count(m.Replicas, "replica")}
	}
	w.memory.Models[m.Name] = memory
}

// shrink makes surplus replicas of a model leave.
func (w *world) shrink(m *model) {
	for m.have() > m.want.Replicas && w.mayShrink(m) {
		w.changed(m)
		w.shrinkOne(m)
	}
}

// mayShrink reports whether replicas leave because fewer are wanted. Pinned ones and those of a model of
// unknown size leave only if an operator wants fewer.
func (w *world) mayShrink(m *model) bool {
	byOperator := m.held || m.have() > m.Max
	return byOperator || m.Sized && !(m.Pinned && m.want.Replicas >= m.Min)
}

// shrinkOne lowers the number of a model's replicas by one. If one is to be replaced and another one starts, the
// latter becomes its substitute. Otherwise one that is to be replaced leaves, and if there is none, the first in the
// order of removal.
func (w *world) shrinkOne(m *model) {
	old := slices.DeleteFunc(slices.Clone(m.old), func(r *replica) bool { return r.substitute != nil })
	free := slices.DeleteFunc(slices.Clone(m.replicas), func(r *replica) bool { return r.replaces != nil })
	starting := slices.IndexFunc(free, func(r *replica) bool { return r.Progress < Up })
	switch {
	case len(old) > 0 && starting >= 0:
		r, o := free[starting], removal(m, old)
		r.replaces, o.substitute = o, r
	case len(old) > 0:
		removal(m, old).retire(m)
	case len(free) > 0:
		removal(m, free).retire(m)
	default:
		r := removal(m, m.old)
		r.substitute.retire(m)
		r.retire(m)
	}
}

// retire makes a surplus replica leave.
func (r *replica) retire(m *model) {
	r.surplus = true
	r.leave(m.want.Why, "")
}

// removal returns the replica to remove first: one that does not serve yet, then one on the device and on
// the node with the most replicas of the model, so that the rest stays evenly spread. Of these it prefers
// the one with the fewest sequences to finish or migrate, and then the newest, which has the least in its
// cache.
func removal(m *model, all []*replica) *replica {
	nodes := m.siblingsOn()
	fullest := func(r *replica) (n int) {
		for _, d := range r.on {
			n = max(n, d.siblings(m))
		}
		return n
	}
	return slices.MinFunc(all, func(a, b *replica) int {
		return cmp.Or(cmp.Compare(a.Progress, b.Progress), cmp.Compare(fullest(b), fullest(a)),
			cmp.Compare(nodes[b.on[0].Node], nodes[a.on[0].Node]), cmp.Compare(a.Streams, b.Streams),
			-compareNames(a.Name, b.Name))
	})
}

// changed notes when the number of a model's replicas changes.
func (w *world) changed(m *model) {
	memory := w.memory.Models[m.Name]
	memory.Changed = w.at
	w.memory.Models[m.Name] = memory
}

// phase gives models the replicas that they lack with the urgencies of a phase: by priority, and one to each model in
// turn. Of models with the same priority, those whose requests have waited the longest come first.
func (w *world) phase(p int) {
	waiting := slices.Clone(w.models)
	slices.SortStableFunc(waiting, func(a, b *model) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), compareAges(a.Demand.Oldest, b.Demand.Oldest))
	})
	for len(waiting) > 0 {
		end := 1
		for end < len(waiting) && waiting[end].Priority == waiting[0].Priority {
			end++
		}
		same, others := slices.Clone(waiting[:end]), waiting[end:]
		for len(same) > 0 {
			same = slices.DeleteFunc(same, func(m *model) bool { return !w.add(m, p) })
		}
		waiting = others
	}
}

// compareAges orders times, the zero one last.
func compareAges(a, b time.Time) int {
	return cmp.Or(cmp.Compare(number(a.IsZero()), number(b.IsZero())), a.Compare(b))
}

// add gives a model one replica, if it lacks one with an urgency of the phase, and reports whether it did. Replicas on
// draining devices do not count, but at most one more than the maximum is there at once.
func (w *world) add(m *model, phase int) bool {
	u, target := m.want.Urgency, m.want.Replicas
	if phase == 0 && !m.held {
		u, target = Minimum, min(target, m.Min)
	}
	evicted := m.unpaired(func(r *replica) bool { return r.evicted })
	missing := target - m.have() + len(evicted)
	if !m.Sized || m.refused || missing <= 0 || !slices.Contains(phases[phase], u) {
		return false
	}
	if len(m.replicas)+len(m.old) > m.most() { // a replica has to leave first
		return false
	}
	var replaces *replica
	if m.have() >= m.want.Replicas {
		replaces = removal(m, evicted)
	}
	q := request{model: m, urgency: u, siblings: u == Minimum, why: m.want.Why}
	if replaces != nil {
		q.why = replaces.whyReplaced()
	}
	on, why := w.group(q, here)
	if on == nil {
		room, ok := w.displace(q)
		if !ok || w.cheaperSoon(q, room) {
			m.refused = true
			w.refuse(q, missing)
			return false
		}
		for _, r := range room.victims {
			r.leave(fmt.Sprintf("%s needs its place (%s): %s", m.Name, u, m.want.Why), m.Name)
			r.model.displaced(m)
		}
		n := len(room.victims)
		on, why = room.on, units.Count(n, "replica")+units.Verb(n, " leaves", " leave")+" for it"
	}
	w.start(m, u, on, replaces, q.why+"; "+on[0].Name+": "+why)
	if replaces == nil {
		w.changed(m)
	}
	return true
}

// displaced notes that a replica of a model leaves for another model. If it was the last one, the requests of the
// model wait for their turn; a model without requests goes to sleep.
func (m *model) displaced(by *model) {
	m.want.Why = "its place went to " + by.Name
	switch {
	case m.have() > 0:
	case m.Demand.sequences() > 0:
		m.want.Urgency = min(m.want.Urgency, Wake)
	default:
		m.want.Replicas = min(m.want.Replicas, m.Min)
	}
}

// unpaired returns the replicas to be replaced that have no substitute and for which is holds.
func (m *model) unpaired(is func(*replica) bool) (all []*replica) {
	for _, r := range m.old {
		if r.substitute == nil && is(r) {
			all = append(all, r)
		}
	}
	return all
}

// start adds a new replica to devices. If replaces is not nil, it is the substitute of that one.
func (w *world) start(m *model, u Urgency, on []*device, replaces *replica, why string) {
	r := &replica{Placed: Placed{Name: w.freeName(m), Model: m.Name, Since: w.at}, model: m, files: m.files, on: on,
		started: true, urgency: u, why: why, replaces: replaces}
	if replaces != nil {
		replaces.substitute = r
	}
	for _, d := range on {
		r.Devices = append(r.Devices, d.Name)
		if d.short(m, func(*replica) bool { return true }) > 0 {
			for _, o := range d.replicas {
				if o.leaves && !slices.Contains(r.after, o) {
					r.after = append(r.after, o)
				}
			}
		}
	}
	for _, d := range on {
		d.expect(m)
		d.replicas = append(d.replicas, r)
	}
	m.replicas = append(m.replicas, r)
}

// freeName returns the first name of a replica that is neither in use nor reserved.
func (w *world) freeName(m *model) string {
	for ; ; m.names++ {
		if name := m.Name + "-" + strconv.Itoa(m.names); !w.names[name] {
			w.names[name] = true
			return name
		}
	}
}

// number returns 1 for true and 0 for false, for comparisons.
func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

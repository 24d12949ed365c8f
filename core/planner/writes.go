package planner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"troupe/core/schedule"
)

// adopted is the reason of a replica that was there before it was assigned.
const adopted = "it was there before"

// writes returns the deployments that the plan changes, in the order in which they are stored: replicas
// whose memory other deployments need are withdrawn first, in a write of their own if their deployment gets
// others too. Of the other deployments, those that get new replicas come first.
func (m *Machine) writes() (all []Write) {
	r := &m.round
	plan := &r.record.Plan
	there := r.seen.there()
	needed := make(map[string]bool) // replicas whose memory a new one of another model needs
	for _, a := range plan.Assignments {
		for _, name := range a.After {
			own := slices.ContainsFunc(plan.Departures, func(d schedule.Departure) bool {
				return d.Replica == name && d.Model == a.Model
			})
			needed[name] = needed[name] || a.New && !own
		}
	}
	withdrawn := m.withdrawn()
	var last []Write
	for i := range r.seen.Deployments {
		d := &r.seen.Deployments[i]
		if d.undecided() {
			continue
		}
		w := m.write(d, d.target(&r.index, there, r.record.At), withdrawn[d.Model.Name])
		if w == nil {
			continue
		}
		if !slices.ContainsFunc(w.Changes, func(c Change) bool { return c.Withdrawn && needed[c.Replica] }) {
			last = append(last, *w)
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(w.Replicas), func(a Assignment) bool { return w.adds(a.Replica) })
		if first := m.write(d, kept, w.Withdrawn); len(kept) < len(w.Replicas) && first != nil {
			all = append(all, *first)
			w.From, w.Released = first.To, ""
			w.Changes = slices.DeleteFunc(w.Changes, func(c Change) bool { return c.Withdrawn })
			last = append(last, *w)
			continue
		}
		all = append(all, *w)
	}
	slices.SortStableFunc(last, func(a, b Write) int { return cmp.Compare(b.added(), a.added()) })
	return append(all, last...)
}

// added returns the number of replicas that a write adds.
func (w *Write) added() (n int) {
	for _, c := range w.Changes {
		if !c.Withdrawn {
			n++
		}
	}
	return n
}

// adds reports whether a write adds a replica.
func (w *Write) adds(replica string) bool {
	return slices.ContainsFunc(w.Changes, func(c Change) bool { return c.Replica == replica && !c.Withdrawn })
}

// target returns the assignments that a plan gives to a deployment.
func (d *Deployment) target(plan *index, there map[string]bool, now time.Time) (all []Assignment) {
	assignments := d.byReplica()
	for _, a := range plan.assigned[d.Model.Name] {
		old, known := assignments[a.Replica]
		switch {
		case a.New:
			all = append(all, Assignment{a.Replica, a.Devices, a.Why, a.After, now})
		case known:
			stays := *old
			stays.After = remaining(old.After, there)
			all = append(all, stays)
		default:
			all = append(all, Assignment{a.Replica, a.Devices, adopted, nil, now})
		}
	}
	return all
}

// withdrawn returns the replicas that the plan withdraws, by model, without those on devices that are away or failed.
func (m *Machine) withdrawn() map[string][]string {
	r := &m.round
	usable, departs := make(map[string]bool), make(map[string]bool)
	for _, device := range r.record.Snapshot.Devices {
		usable[device.Name] = !device.Failed
	}
	for _, d := range r.record.Plan.Departures {
		departs[d.Replica] = true
	}
	all := make(map[string][]string)
	for _, p := range r.record.Snapshot.Replicas {
		away := slices.ContainsFunc(p.Devices, func(name string) bool { return !usable[name] })
		if departs[p.Name] && !away {
			all[p.Model] = append(all[p.Model], p.Name)
		}
	}
	return all
}

// write returns the write that gives a deployment its assignments, or nil if it has them.
func (m *Machine) write(d *Deployment, to []Assignment, withdrawn []string) *Write {
	w := &Write{Name: d.Model.Name, Revision: d.Revision, Term: m.term, From: d.Replicas, To: m.number(d, len(to)),
		Replicas: to, Withdrawn: withdrawn}
	w.Intended = m.intended(d, w.To)
	if d.holdEnded(m.round.record.Snapshot.At) {
		w.Released = d.Model.HeldBy
	}
	assignments := d.byReplica()
	for _, a := range to {
		if assignments[a.Replica] == nil {
			w.Changes = append(w.Changes, Change{a.Replica, false, a.Why})
		}
	}
	for _, a := range d.Assigned {
		if !slices.ContainsFunc(to, func(o Assignment) bool { return o.Replica == a.Replica }) {
			why := m.round.index.departure(a.Replica)
			if slices.Contains(d.Reserved, a.Replica) {
				why = "an operator has taken it away"
			}
			w.Changes = append(w.Changes, Change{a.Replica, true, why})
		}
	}
	for _, r := range d.Reports {
		if d.offered(r, assignments[r.Name] != nil) && slices.Contains(withdrawn, r.Name) {
			w.Changes = append(w.Changes, Change{r.Name, true, m.round.index.departure(r.Name)})
		}
	}
	same := d.Planned && w.Released == "" && len(w.Changes) == 0 && w.To == w.From && w.Intended == d.Intended &&
		slices.EqualFunc(d.Assigned, to, func(a, b Assignment) bool {
			return a.Replica == b.Replica && slices.Equal(a.Devices, b.Devices) && slices.Equal(a.After, b.After)
		})
	if same {
		return nil
	}
	return w
}

// number returns the number of replicas to store for a deployment that has so many assignments: at most as many as it
// wants, so that substitutes do not count, and at least its minimum.
func (m *Machine) number(d *Deployment, have int) int {
	model := m.round.models[d.Model.Name]
	if model.HeldBy != "" || d.Model.Max == 0 {
		return d.Replicas
	}
	if want, known := m.round.index.wants[d.Model.Name]; known {
		have = min(have, want)
	}
	return max(have, model.Min)
}

// intended returns Write.Intended. Replicas that an operator has taken away do not count: when the hold ends, the
// stored number of replicas differs from it, so that they come back.
func (m *Machine) intended(d *Deployment, to int) int {
	switch model := m.round.models[d.Model.Name]; {
	case model.HeldBy == "":
		return to
	case d.Model.HeldBy == "": // it does not report
		return d.Intended
	default:
		return min(to, d.Model.Replicas)
	}
}

// forgetUnstored forgets the substitutes that this round has not stored, so that they do not count as failed.
func (m *Machine) forgetUnstored() {
	all := slices.Clone(m.round.writes)
	for _, w := range m.round.record.Writes {
		if w.Outcome == Conflict || w.Outcome == NotStored {
			all = append(all, w)
		}
	}
	m.memory.Substitutes = maps.Clone(m.memory.Substitutes)
	for _, w := range all {
		for _, c := range w.Changes {
			if !c.Withdrawn {
				delete(m.memory.Substitutes, c.Replica)
			}
		}
	}
}

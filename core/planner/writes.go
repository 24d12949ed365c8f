package planner

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/schedule"
)

// adopted is the reason of a replica that was there before it was assigned.
const adopted = "it was there before"

// writes returns the deployments that the plan changes, in the order in which they are stored: replicas
// whose memory other deployments need are withdrawn first, in a write of their own if their deployment gets
// others too.
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
		w := m.write(d, d.target(plan, there, r.record.At), withdrawn[d.Model.Name])
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
	return append(all, last...)
}

func (w *Write) adds(replica string) bool {
	return slices.ContainsFunc(w.Changes, func(c Change) bool { return c.Replica == replica && !c.Withdrawn })
}

// target returns the assignments of a deployment by a plan.
func (d *Deployment) target(plan *schedule.Plan, there map[string]bool, now time.Time) (all []Assignment) {
	for _, a := range assigned(plan, d.Model.Name) {
		old, known := d.assignment(a.Replica)
		switch {
		case a.New:
			all = append(all, Assignment{a.Replica, a.Devices, a.Why, a.After, now})
		case known:
			old.After = remaining(old.After, there)
			all = append(all, old)
		default:
			all = append(all, Assignment{a.Replica, a.Devices, adopted, nil, now})
		}
	}
	return all
}

// assigned returns the assignments of a model in a plan.
func assigned(plan *schedule.Plan, model string) (all []schedule.Assignment) {
	for _, a := range plan.Assignments {
		if a.Model == model {
			all = append(all, a)
		}
	}
	return all
}

// withdrawn returns the replicas that the plan withdraws, by model. Those on devices that are away or failed are not
// there.
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
	if d.holdEnded(m.round.record.Snapshot.At) {
		w.Released = d.Model.HeldBy
	}
	for _, a := range to {
		if _, was := d.assignment(a.Replica); !was {
			w.Changes = append(w.Changes, Change{a.Replica, false, a.Why})
		}
	}
	for _, a := range d.Assigned {
		if !slices.ContainsFunc(to, func(o Assignment) bool { return o.Replica == a.Replica }) {
			w.Changes = append(w.Changes, Change{a.Replica, true, m.departure(a.Replica)})
		}
	}
	for _, r := range d.Reports {
		if d.offered(r) && slices.Contains(withdrawn, r.Name) {
			w.Changes = append(w.Changes, Change{r.Name, true, m.departure(r.Name)})
		}
	}
	same := d.Planned && w.Released == "" && len(w.Changes) == 0 && w.To == w.From && d.Replicas == d.Intended &&
		slices.EqualFunc(d.Assigned, to, func(a, b Assignment) bool {
			return a.Replica == b.Replica && slices.Equal(a.Devices, b.Devices) && slices.Equal(a.After, b.After)
		})
	if same {
		return nil
	}
	return w
}

// departure returns why a replica is withdrawn.
func (m *Machine) departure(replica string) string {
	for _, d := range m.round.record.Plan.Departures {
		if d.Replica == replica {
			return d.Why
		}
	}
	return "it is no longer needed"
}

// number returns the number of replicas to store for a deployment with some assignments: those that it
// wants and has, and at least those that it must have. Substitutes do not count.
func (m *Machine) number(d *Deployment, have int) int {
	model := m.round.models[d.Model.Name]
	if model.HeldBy != "" || d.Model.Max == 0 {
		return d.Replicas
	}
	for _, w := range m.round.record.Plan.Wants {
		if w.Model == d.Model.Name {
			have = min(have, w.Replicas)
		}
	}
	return max(have, model.Min)
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

package planner

import (
	"time"

	"troupe/core/schedule"
)

// note notes when models had requests.
func (m *Machine) note(o *Observation, now time.Time) {
	known := make(map[string]bool)
	for i := range o.Deployments {
		d := &o.Deployments[i]
		name := d.Model.Name
		known[name] = true
		if _, seen := m.active[name]; d.Active || !seen { // a new leader does not know of earlier requests
			m.active[name] = now
		}
		if d.Model.Demand.Pending == 0 {
			delete(m.waiting, name)
		} else if _, seen := m.waiting[name]; !seen {
			m.waiting[name] = now
			m.lively = now.Add(livelyFor)
		}
		if w, ok := m.written[name]; ok && (d.Revision == 0 || d.Revision >= w.revision) {
			delete(m.written, name)
		}
	}
	for _, all := range []map[string]time.Time{m.active, m.waiting} {
		for name := range all {
			if !known[name] {
				delete(all, name)
			}
		}
	}
}

// snapshot returns what a plan is made of.
func (m *Machine) snapshot(o *Observation, devices []schedule.Device, now time.Time) schedule.Snapshot {
	s := schedule.Snapshot{At: now, Devices: devices, Away: o.Away, Memory: m.memory, Options: m.options}
	for i := range o.Deployments {
		d := &o.Deployments[i]
		s.Models = append(s.Models, m.model(d))
		s.Replicas = append(s.Replicas, d.placed()...)
		s.Reserved = append(s.Reserved, d.Reserved...)
	}
	return s
}

// model returns a model with its limits for a plan. The number of replicas with which a deployment was stored,
// unless a planner did, is what an operator wants for now: the policy goes on from there.
func (m *Machine) model(d *Deployment) schedule.Model {
	model := d.Model
	model.Demand.Last = m.active[model.Name]
	if since, waits := m.waiting[model.Name]; waits && model.Demand.Oldest.IsZero() {
		model.Demand.Oldest = since
	}
	switch {
	case d.Revision == 0:
		model.Min, model.Max = 0, 0
	case d.Leader == "":
		model.HeldBy, model.HeldTill, model.Replicas = "nobody: its deployment does not report", time.Time{},
			len(d.Assigned)
	case model.HeldBy == "" && model.Max > 0 && (!d.Planned || d.Replicas != d.Intended):
		n := min(max(d.Replicas, model.Min), model.Max)
		if n < len(d.Assigned) {
			model.Max = n
		} else {
			model.Min = n
		}
	}
	return model
}

// steps adds the steps of a plan to its record, and the writes that it leads to.
func (m *Machine) steps(now time.Time) {
	r := &m.round
	missed := 0
	for _, w := range r.record.Plan.Wants {
		if w.Urgency == schedule.Missed && w.Replicas > len(assigned(&r.record.Plan, w.Model)) {
			missed++
		}
	}
	r.writes = m.writes()
	added, withdrawn := 0, 0
	for _, w := range r.writes {
		for _, c := range w.Changes {
			if c.Withdrawn {
				withdrawn++
			} else {
				added++
			}
		}
	}
	m.end("schedule", now, plural(missed, "SLO")+" missed, "+plural(added, "replica")+" added, "+
		plural(withdrawn, "replica")+" withdrawn, "+plural(len(r.record.Plan.Unmet), "model")+" refused")
}

// end ends a step of the round.
func (m *Machine) end(name string, now time.Time, result string) {
	r := &m.round
	r.record.Steps = append(r.record.Steps, Step{name, now.Sub(r.step), result})
	r.step = now
}

// refuse tells deployments why they have fewer replicas than they want, or once that they have what they
// want. A new leader does not know what they were told.
func (m *Machine) refuse() {
	r := &m.round
	unmet := make(map[string]bool)
	for _, u := range r.record.Plan.Unmet {
		unmet[u.Model] = true
		if m.tell(u) {
			m.told[u.Model] = true
		}
	}
	for i := range r.seen.Deployments {
		name := r.seen.Deployments[i].Model.Name
		if refused, known := m.told[name]; !unmet[name] && (refused || !known) && m.tell(schedule.Unmet{Model: name}) {
			m.told[name] = false
		}
	}
}

// tell sends a refusal to a deployment, and reports whether there is one to receive it.
func (m *Machine) tell(u schedule.Unmet) bool {
	d := m.round.seen.find(u.Model)
	if d == nil || d.Leader == "" || d.Revision == 0 {
		return false
	}
	revision := d.Revision
	if at, changed := m.round.revision[u.Model]; changed {
		revision = at
	}
	m.emit(Refuse{Name: u.Model, Leader: d.Leader, Revision: revision, Unmet: u})
	return true
}

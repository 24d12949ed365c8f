package planner

import (
	"cmp"
	"slices"
	"time"

	"troupe/core/schedule"
	"troupe/core/units"
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

// snapshot returns what a plan is made of, without impossible figures, so that it can be recorded.
func (m *Machine) snapshot(o *Observation, devices []Device, now time.Time) schedule.Snapshot {
	s := schedule.Snapshot{At: now, Away: o.Away, Memory: m.memory, Options: m.options}
	counted := make(map[string]bool) // replicas whose memory the models say
	use, files := useOf(devices), filesOf(devices)
	for i := range o.Deployments {
		d := &o.Deployments[i]
		model := m.model(d, now)
		placed := d.placed()
		for i := range placed {
			placed[i].Weights = files[placed[i].Files]
		}
		if share := mean(placed, use); share >= 0 {
			model.Demand.Utilization = share
		}
		s.Models, s.Replicas = append(s.Models, model), append(s.Replicas, placed...)
		s.Reserved = append(s.Reserved, d.Reserved...)
		for _, a := range d.Assigned { // another replica of that name would seem not to have left
			s.Reserved = append(s.Reserved, a.After...)
		}
		for _, p := range placed {
			counted[p.Name] = model.Sized
		}
	}
	for name := range m.lost {
		s.Reserved = append(s.Reserved, name)
	}
	slices.Sort(s.Reserved)
	returning := m.returning()
	for _, d := range devices {
		d.Returning = returning[d.Node]
		for name, bytes := range d.Held {
			if !counted[name] {
				d.Other += bytes
			}
		}
		if !d.Silent {
			delete(m.silent, d.Name)
		} else if _, known := m.silent[d.Name]; !known {
			m.silent[d.Name] = now
		}
		d.SilentSince = m.silent[d.Name]
		s.Devices = append(s.Devices, d.Device)
	}
	return schedule.Checked(s)
}

// filesOf returns the bytes of the weights on a device by the digest of their files, as far as a device reports
// them.
func filesOf(devices []Device) map[string]int64 {
	return largest(devices, func(d *Device) map[string]int64 { return d.Files })
}

// useOf returns the utilization of devices by each replica, as far as it is known.
func useOf(devices []Device) map[string]float64 {
	return largest(devices, func(d *Device) map[string]float64 { return d.Use })
}

// largest returns the largest of what devices report, by key.
func largest[V cmp.Ordered](devices []Device, of func(*Device) map[string]V) map[string]V {
	all := make(map[string]V)
	for i := range devices {
		for key, v := range of(&devices[i]) {
			all[key] = max(all[key], v)
		}
	}
	return all
}

// mean returns the mean utilization by the replicas that serve, or -1 if none is known.
func mean(replicas []schedule.Placed, use map[string]float64) float64 {
	sum, n := 0.0, 0
	for _, p := range replicas {
		if share, known := use[p.Name]; known && p.Progress == schedule.Up {
			sum += share
			n++
		}
	}
	if n == 0 {
		return -1
	}
	return sum / float64(n)
}

// model returns a model with its limits for a plan. The number of replicas with which a deployment was stored,
// unless a planner did, is what an operator wants for now: the policy goes on from there. A hold whose time has
// passed does not count.
func (m *Machine) model(d *Deployment, now time.Time) schedule.Model {
	model := d.Model
	if d.holdEnded(now) {
		model.HeldBy, model.HeldTill = "", time.Time{}
	}
	model.Demand.Last = m.active[model.Name]
	if since, waits := m.waiting[model.Name]; waits && model.Demand.Oldest.IsZero() {
		model.Demand.Oldest = since
	}
	switch {
	case d.Revision == 0:
		model.Min, model.Max = 0, 0
	case d.Leader == "":
		model.HeldBy, model.HeldTill, model.Replicas = "the planner: its deployment does not report", time.Time{},
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
		if w.Urgency == schedule.Missed && w.Replicas > len(r.index.assigned[w.Model]) {
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
	m.end("schedule", now, units.Count(missed, "SLO")+" missed, "+units.Count(added, "replica")+" added, "+
		units.Count(withdrawn, "replica")+" withdrawn, "+units.Count(len(r.record.Plan.Unmet), "model")+" refused")
}

// end ends a step of the round.
func (m *Machine) end(name string, now time.Time, result string) {
	r := &m.round
	r.record.Steps = append(r.record.Steps, Step{name, now.Sub(r.step), result})
	r.step = now
}

// refuse tells each deployment that lacks replicas why. A deployment that no longer lacks any gets one empty
// refusal. A new leader does not know what its predecessor sent, so it sends at least one to every deployment.
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
	d := m.round.seen.Find(u.Model)
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

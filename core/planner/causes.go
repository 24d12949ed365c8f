package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"troupe/core/schedule"
	"troupe/core/units"
)

const (
	// livelyFor is how long observations follow each other quickly after a change.
	livelyFor = 5 * time.Second
	// changedFor is how long they do so after Changed.
	changedFor = time.Second
	// waitInterval is the longest time between two plans while requests wait for a model without replicas, or while
	// replicas are missing and devices do not work.
	waitInterval = time.Second
	// behindFor is how long observations are ignored that lack this planner's own write, or have the plans of a
	// later term.
	behindFor = 5 * time.Second
)

// seen is what the last plan saw. What differs from it leads to another plan.
type seen struct {
	at     time.Time
	due    time.Time // a backoff ends or a start times out; zero: none
	lacks  bool      // models lacked replicas while devices did not work
	took   time.Duration
	models map[string]seenModel
	ended  map[string]string // replicas that failed or ended, with the reason
	// progress is how far the reported replicas have come.
	progress    map[string]schedule.Progress
	offered     map[string]bool // replicas that are there, and neither assigned nor withdrawn
	nodes       map[string]string
	pools       map[string]bool     // replicas that took adapters
	quarantined map[string]bool     // replicas on quarantined devices
	returning   map[string][]string // models that might have replicas on a node that was back, by node
}

type seenModel struct {
	revision       uint64
	sized, reports bool
	waits, spikes  bool
	reported       []string // replicas
}

// stored notes a revision that this planner has stored.
func (s *seen) stored(model string, revision uint64) {
	if m, ok := s.models[model]; ok {
		m.revision = revision
		s.models[model] = m
	}
}

// seenOf returns what a plan sees of a deployment.
func (m *Machine) seenOf(d *Deployment) seenModel {
	return seenModel{
		revision: d.Revision, sized: d.Model.Sized, reports: d.Leader != "",
		waits: d.Model.Demand.Pending > 0 && len(d.Assigned) == 0, spikes: d.Model.Demand.Spikes(m.options),
	}
}

// see notes what the plan of this round saw.
func (m *Machine) see(now time.Time) {
	r := &m.round
	s := seen{at: r.record.At, models: make(map[string]seenModel), ended: make(map[string]string),
		progress: make(map[string]schedule.Progress), quarantined: make(map[string]bool),
		offered: make(map[string]bool), nodes: make(map[string]string), pools: make(map[string]bool),
		due:  schedule.Due(r.record.Snapshot, r.record.Plan),
		took: now.Sub(r.record.At), returning: m.returning()}
	s.lacks = len(r.record.Plan.Unmet) > 0 && slices.ContainsFunc(r.record.Snapshot.Devices,
		func(d schedule.Device) bool { return d.Failed || d.Quarantined || d.Silent })
	for i := range r.seen.Deployments {
		d := &r.seen.Deployments[i]
		model, assignments := m.seenOf(d), d.byReplica()
		for _, p := range d.Reports {
			model.reported = append(model.reported, p.Name)
			s.progress[p.Name], s.quarantined[p.Name] = p.Progress, p.Quarantined
			if p.Failure != "" {
				s.ended[p.Name] = endOf(p)
			}
			s.offered[p.Name] = d.offered(p, assignments[p.Name] != nil)
		}
		s.models[d.Model.Name] = model
		for _, p := range d.Pools {
			s.pools[p.Replica] = true
		}
	}
	for _, n := range r.seen.Nodes {
		s.nodes[n.Name] = n.text()
	}
	m.seen = s
}

func endOf(r Report) string { return r.Since.Format(time.RFC3339Nano) + " " + r.Failure }

func (n Node) text() string {
	return fmt.Sprintf("%s %v %v", strings.Join(n.GPUs, ","), n.Draining, n.Leaving)
}

// causes returns why a plan is due; empty: none is. After a plan, none is due for as long as it took, so that plans
// take at most half of the time.
func (m *Machine) causes(o *Observation, now time.Time) (all []string) {
	since := now.Sub(m.seen.at)
	if m.last != nil && since < 2*m.seen.took {
		return nil
	}
	if m.again != "" {
		all = append(all, m.again)
	}
	if m.resumes {
		all = append(all, "it was resumed")
	}
	if m.last == nil {
		return all
	}
	if since >= Interval {
		all = append(all, "interval")
	}
	if due := m.seen.due; !due.IsZero() && !now.Before(due) {
		all = append(all, "a backoff or a start has ended")
	}
	returning := m.returning()
	for _, node := range slices.Sorted(maps.Keys(m.seen.returning)) {
		if returning[node] == nil {
			all = append(all, "node "+node+": the replicas that were lost with it are back, or gone")
		}
	}
	if m.seen.lacks && since >= waitInterval {
		all = append(all, "replicas are missing, and devices do not work")
	}
	for _, device := range m.changed {
		node, gpu, _ := strings.Cut(device, "/")
		all = append(all, "node "+node+": the quarantine of "+gpu+" has begun or ended")
	}
	all = append(all, m.nodeCauses(o)...)
	there := o.there()
	for i := range o.Deployments {
		if why := m.cause(&o.Deployments[i], there, now); why != "" {
			all = append(all, o.Deployments[i].Model.Name+": "+why)
		}
	}
	return all
}

func (m *Machine) nodeCauses(o *Observation) (all []string) {
	live := make(map[string]bool)
	for _, n := range o.Nodes {
		live[n.Name] = true
		if before, known := m.seen.nodes[n.Name]; !known || before != n.text() {
			all = append(all, "node "+n.Name+" has changed")
		}
	}
	var gone []string
	for name := range m.seen.nodes {
		if !live[name] {
			gone = append(gone, "node "+name+" has left")
		}
	}
	slices.Sort(gone)
	return append(all, gone...)
}

// fallsAsleep reports whether, since the last plan, the time has ended for which a model keeps its replicas without a
// request.
func (m *Machine) fallsAsleep(d *Deployment, now time.Time) bool {
	last, known := m.active[d.Model.Name]
	idle := m.options.Idle(d.Model.IdleAfter)
	return known && d.Model.Min == 0 && d.Model.Max > 0 && len(d.Assigned) > 0 && now.Sub(last) >= idle &&
		m.seen.at.Sub(last) < idle
}

// cause returns why a deployment needs a plan; empty: it does not.
func (m *Machine) cause(d *Deployment, there map[string]bool, at time.Time) string {
	before := m.seen.models[d.Model.Name]
	now := m.seenOf(d)
	switch {
	case now.revision != before.revision:
		return fmt.Sprintf("it has changed (revision %d)", now.revision)
	case now.sized && !before.sized:
		return "its memory is known"
	case now.reports != before.reports:
		return "it has begun or ceased to report"
	case now.waits && !before.waits, now.waits && at.Sub(m.seen.at) >= waitInterval:
		return "requests wait, and there is no replica"
	case now.spikes && !before.spikes:
		return "a spike of requests"
	case d.holdEnded(at) && !d.undecided():
		return "its hold has ended: " + d.Model.HeldBy
	case m.fallsAsleep(d, at):
		return "it has had no request for long enough"
	}
	assignments, reported := d.byReplica(), make(map[string]bool, len(d.Reports))
	for _, r := range d.Reports {
		reported[r.Name] = true
		assigned := assignments[r.Name] != nil
		switch {
		case assigned && r.Failure != "" && m.seen.ended[r.Name] != endOf(r):
			return r.Name + " has ended: " + r.Failure
		case d.offered(r, assigned) && !m.seen.offered[r.Name]:
			return r.Name + " is there, and is not assigned"
		case r.Progress == schedule.Up && m.seen.progress[r.Name] != schedule.Up:
			return r.Name + " serves"
		case r.Quarantined != m.seen.quarantined[r.Name]:
			return "the quarantine of the device of " + r.Name + " has begun or ended"
		}
	}
	for _, name := range before.reported {
		if now.reports && !reported[name] {
			return name + " has left"
		}
	}
	for _, f := range d.fetches() {
		if !m.seen.pools[f.Replica] {
			return f.Replica + " serves, and lacks " + units.Count(len(f.Adapters), "popular adapter")
		}
	}
	for _, a := range d.Assigned {
		if len(a.After) > len(remaining(a.After, there)) {
			return a.Replica + " has room"
		}
	}
	return ""
}

// there returns the names of the replicas that may still have memory: all that are reported, and those of
// deployments that do not report. It returns nil if no replica waits for others to leave.
func (o *Observation) there() map[string]bool {
	waits := func(a Assignment) bool { return len(a.After) > 0 }
	if !slices.ContainsFunc(o.Deployments, func(d Deployment) bool { return slices.ContainsFunc(d.Assigned, waits) }) {
		return nil
	}
	all := make(map[string]bool)
	for i := range o.Deployments {
		d := &o.Deployments[i]
		for _, p := range d.placed() {
			all[p.Name] = true
		}
		if d.Leader == "" {
			all[d.Model.Name] = true
		}
	}
	return all
}

// remaining returns those of some replicas that are still there.
func remaining(after []string, there map[string]bool) (all []string) {
	for _, name := range after {
		model := name[:max(0, strings.LastIndexByte(name, '-'))]
		if there[name] || there[model] {
			all = append(all, name)
		}
	}
	return all
}

// behind reports whether an observation lacks a write of this planner.
func (m *Machine) behind(o *Observation, now time.Time) bool {
	for name, w := range m.written {
		if d := o.Find(name); now.Sub(w.at) < behindFor && d != nil && d.Revision != 0 && d.Revision < w.revision {
			return true
		}
	}
	return false
}

// isOutdated reports whether another planner has stored plans in a later term, of which this node has not learned yet.
// If this node still leads after behindFor, the terms were set back, and it plans.
func (m *Machine) isOutdated(o *Observation, now time.Time) bool {
	latest := uint64(0)
	for i := range o.Deployments {
		latest = max(latest, o.Deployments[i].Term)
	}
	if latest <= m.term {
		return false
	}
	if latest > m.later {
		m.later, m.outdatedAt = latest, now
	}
	return now.Sub(m.outdatedAt) < behindFor
}

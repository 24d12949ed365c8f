package simulate

import (
	"slices"
	"time"

	"troupe/core/deployment"
	"troupe/core/hbm"
	"troupe/core/planner"
	"troupe/core/schedule"
)

// soon is the time between two ticks of the planner while it has something to do.
const soon = 100 * time.Millisecond

// startPlanner starts the planner, which leads.
func (s *simulation) startPlanner() {
	s.planner = planner.New(s.cfg.Policies)
	s.tickPlanner()
}

func (s *simulation) tickPlanner() {
	s.performPlanner(s.planner.Tick(s.planned()))
	wait := tickInterval
	if s.planner.Soon(s.key.at) {
		wait = soon
	}
	s.after(wait, s.tickPlanner)
}

// planned returns the present for the planner.
func (s *simulation) planned() planner.At { return planner.At{Time: s.key.at, Term: 1} }

// performPlanner carries out the effects of the planner.
func (s *simulation) performPlanner(effects []planner.Effect) {
	for _, effect := range effects {
		if s.cfg.Watch != nil && !s.key.at.Before(epoch) {
			s.cfg.Watch(since(s.key.at), effect)
		}
		switch e := effect.(type) {
		case planner.Observe:
			s.post(func() {
				seen := s.observation()
				s.performPlanner(s.planner.Viewed(e.Round, &seen, s.planned()))
			})
		case planner.Survey:
			s.survey(e)
		case planner.MakePlan:
			s.post(func() {
				result := planner.Result{Plan: schedule.Make(e.Snapshot)}
				s.performPlanner(s.planner.Planned(e.Round, &result, s.planned()))
			})
		case planner.Store:
			s.post(func() {
				outcome, revision, why := s.models[e.Name].assign(e.Write)
				s.performPlanner(s.planner.Stored(e.Round, outcome, revision, why, s.planned()))
			})
		case planner.Refuse:
			m := s.models[e.Name]
			m.post(deployment.PlacementRefused{Stored: e.Revision, Missing: e.Unmet.Missing, Later: e.Unmet.Later,
				Failure: m.failureOf(e.Unmet)})
		}
	}
}

// survey asks all devices for their status. Those of a node that is lost do not answer.
func (s *simulation) survey(e planner.Survey) {
	wait := time.Duration(0)
	for _, n := range e.Nodes {
		if s.nodes[n.Name].lost {
			wait = gpuReplyTimeout
		}
	}
	surveyed := func() {
		var all []planner.Device
		for _, d := range s.deviceReports() {
			all = append(all, planner.Device{Device: d})
		}
		capacities := make(map[string][]float64)
		for _, d := range s.cfg.Deployments {
			capacities[d.Name] = s.models[d.Name].capacities()
		}
		s.performPlanner(s.planner.Surveyed(e.Round, all, capacities, s.planned()))
	}
	if wait == 0 {
		s.post(surveyed)
	} else {
		s.after(wait, surveyed)
	}
}

// failureOf returns why a deployment lacks replicas.
func (m *model) failureOf(u schedule.Unmet) deployment.Failure {
	f := deployment.Failure{Reason: deployment.NoMemory, Detail: u.Detail}
	if s := u.Shortage; s != nil {
		f.Memory = deployment.Memory{Model: m.digest(), Bytes: s.Bytes, Used: s.Used, Total: s.Total,
			Reserve: s.Reserve, Evictable: s.Evictable}
	}
	return f
}

// assign stores the assignments of a deployment, unless something else was stored since they were planned.
func (m *model) assign(w planner.Write) (outcome planner.Outcome, revision uint64, why string) {
	if m.stored != w.Revision {
		return planner.Conflict, 0, "it was changed"
	}
	s := m.sim
	for _, c := range w.Changes {
		event := "assign"
		if c.Withdrawn {
			event = "withdraw"
		}
		s.record.note(s.key.at, event, "replica", c.Replica, "why", c.Why)
	}
	if w.From == 0 && w.To > 0 && m.status().Waiting > 0 {
		m.wakes++
		m.woken = s.key.at
	}
	m.assigned, m.withdrawn, m.intended = w.Replicas, w.Withdrawn, w.Intended
	m.isPlanned = true
	m.store(w.To+len(m.preemptions), m.level, "planned")
	return planner.Done, m.stored, ""
}

// assignments returns what the deployment is to have. Its machine knows the first device of each replica; the others
// belong to the replica (group.go).
func (m *model) assignments() map[string]deployment.Assignment {
	all := make(map[string]deployment.Assignment, len(m.assigned))
	for _, a := range m.assigned {
		first := m.sim.byDevice[a.Devices[0]]
		all[a.Replica] = deployment.Assignment{Node: first.Node, GPUs: []string{first.Device.Name}, Why: a.Why,
			After: a.After, At: a.At}
	}
	return all
}

// assignedTo returns the devices of a replica, by its assignment.
func (m *model) assignedTo(name string) (all []*device) {
	for _, a := range m.assigned {
		if a.Replica == name {
			for _, d := range a.Devices {
				all = append(all, m.sim.byDevice[d])
			}
		}
	}
	return all
}

// needs returns the memory of a replica on each of its devices apart from the weights.
func (m *model) needs() hbm.Need {
	need := m.need()
	need.Fixed -= pages(m.WeightBytes)
	return need
}

// allowed returns the devices on which replicas may start; none: all.
func (m *model) allowed() (names []string) {
	all := true
	for _, d := range m.sim.devices {
		if m.mayUse(d) {
			names = append(names, d.name())
		} else {
			all = false
		}
	}
	if all {
		return nil
	}
	return slices.Clip(names)
}

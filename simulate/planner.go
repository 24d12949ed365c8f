package simulate

import (
	"troupe/core/deployment"
	"troupe/core/planner"
)

// scales reports whether the planner may change the number of replicas of any deployment.
func (s *simulation) scales() bool {
	for _, m := range s.models {
		if m.MinReplicas < m.MaxReplicas {
			return true
		}
	}
	return false
}

// startPlanner starts the planner, which leads. It is not simulated if it has nothing to decide.
func (s *simulation) startPlanner() {
	if s.planner = planner.New(); s.scales() {
		s.after(tickInterval, s.tickPlanner)
	}
}

func (s *simulation) tickPlanner() {
	s.after(tickInterval, s.tickPlanner)
	s.performPlanner(s.planner.Tick(true, s.key.at))
}

// performPlanner carries out the effects of the planner.
func (s *simulation) performPlanner(effects []planner.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case planner.Observe:
			s.performPlanner(s.planner.View(s.view(), true, s.key.at))
		case planner.Scale:
			s.post(func() {
				if m := s.models[e.Name]; m.stored == e.Revision {
					m.store(e.To, m.level, e.Why)
				}
				s.performPlanner(s.planner.WriteEnd(s.key.at))
			})
		}
	}
}

// view returns the deployments as the planner sees them: their specs, and the last reports of their replicas.
func (s *simulation) view() []planner.Deployment {
	all := make([]planner.Deployment, len(s.cfg.Deployments))
	for i, d := range s.cfg.Deployments {
		m := s.models[d.Name]
		all[i] = planner.Deployment{Name: m.Name, Revision: m.stored, Replicas: m.wanted, MinReplicas: m.MinReplicas,
			MaxReplicas: m.MaxReplicas, Held: m.level != deployment.NoLevel, IdleAfter: m.IdleAfter,
			Ready: m.machine.Status().Condition == deployment.ConditionReady}
		if m.MinReplicas < m.MaxReplicas {
			m.addLoad(&all[i])
		}
	}
	return all
}

// addLoad adds the load of the replicas that serve.
func (m *model) addLoad(to *planner.Deployment) {
	for _, r := range m.replicas {
		r.sync(m.sim.key)
		if !r.serving() {
			continue
		}
		to.Load.Serving++
		to.Load.Running += r.load.running
		to.Load.Waiting += r.load.waiting
		to.Load.Places += m.MaxSequences
		to.Load.KVBlocks += r.load.blocks
		to.Load.KVFree += r.load.free
		to.Tokens += r.load.tokens
	}
}

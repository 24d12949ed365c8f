package simulate

import (
	"maps"
	"slices"

	"troupe/core/deployment"
	"troupe/core/router"
	"troupe/core/session"
)

// performRouter carries out the effects of the router. The others concern other nodes, and what the actor keeps
// for queries.
func (s *simulation) performRouter(effects []router.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case router.Answer:
			if q := s.requests[e.ID]; q != nil {
				q.answered(e)
			}
		case router.WakeModel:
			s.models[e.Deployment].post(deployment.Wanted{Node: routerNode, Waiting: e.Waiting, Wakes: e.Wakes,
				Oldest: e.Oldest, Stored: e.Stored})
			s.keepRouting()
		}
	}
}

// keepRouting lets the router tick as long as requests wait there.
func (s *simulation) keepRouting() {
	if s.routing {
		return
	}
	s.routing = true
	s.after(routerTick, func() {
		s.routing = false
		if len(s.router.Waiting()) > 0 {
			s.keepRouting()
		}
		for _, name := range slices.Sorted(maps.Keys(s.router.Waiting())) {
			s.models[name].sync()
		}
		s.performRouter(s.router.Tick(s.key.at))
	})
}

// sync makes the reports of all replicas of the model that are due, so that the router has them.
func (m *model) sync() {
	for _, r := range m.replicas {
		if r.reportDue(m.sim.key) {
			r.sync(m.sim.key)
		}
	}
}

// byAddress returns a replica; nil: it has ended.
func (s *simulation) byAddress(a session.Actor) *replica {
	if r := s.byID[a.ID]; r != nil && r.session() == a {
		return r
	}
	return nil
}

// named returns the replica of a name that began last; nil: it has ended, or is not there.
func (s *simulation) named(name string) (last *replica) {
	for _, m := range s.models {
		for _, r := range m.replicas {
			if r.name == name && (last == nil || r.incarnation > last.incarnation) {
				last = r
			}
		}
	}
	return last
}

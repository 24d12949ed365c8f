package dst

import (
	"maps"
	"slices"

	"troupe/messages"
	"troupe/node/query"
)

// restlessPlans compares what is assigned with what is there, and finds planners that are not at rest.
func (c *cluster) restlessPlans(report func(string, ...any)) {
	for _, m := range c.models {
		c.restlessPlan(m.name, report)
	}
	leads, changed := 0, uint64(0)
	for _, n := range c.alive() {
		s, ok := ask[*messages.PlannerStatus](c, n, n.pid(query.Planner), &messages.GetPlanner{})
		if !ok {
			report("the planner of %s does not answer", n.cfg.Name)
			continue
		}
		if s.GetLeads() {
			leads++
			changed += s.GetChanged() + s.GetConflicts() + s.GetFailed() + s.GetTerm()<<20
		}
	}
	if leads != 1 {
		report("%d planners lead", leads)
	}
	if changed != c.changed {
		c.changed = changed
		report("the planner has just changed something")
	}
}

// restlessPlan compares the assignments of a model with its replicas. Those that an operator has taken away do
// not run, even if they are assigned.
func (c *cluster) restlessPlan(model string, report func(string, ...any)) {
	spec := c.operator.spec(model)
	if spec.GetAssignments() == nil {
		report("%s has no plan", model)
		return
	}
	places := make(map[string]bool)
	for _, a := range spec.GetAssignments().GetReplicas() {
		if len(a.GetAfter()) > 0 {
			report("%s still waits for %v", a.GetReplica(), a.GetAfter())
		}
		if !takenAway(spec, a.GetReplica()) {
			places[placeOf(a.GetReplica(), a.GetNode(), a.GetGpus()[0])] = true
		}
	}
	for _, r := range c.replicas(model) {
		s, ok := ask[*messages.ReplicaStatus](c, r.node, r.pid, &messages.GetReplica{})
		place := placeOf(r.name, r.node.cfg.Name, s.GetGpu())
		if ok && !places[place] {
			report("%s runs, and is not assigned", place)
		}
		delete(places, place)
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		report("%s is assigned, and is not there", place)
	}
}

// takenAway reports whether an operator has parked or preempted a replica.
func takenAway(spec *messages.DeploymentSpec, replica string) bool {
	return spec.LevelOf(replica) == messages.Level_LEVEL_PARKED ||
		slices.ContainsFunc(spec.GetPreemptions(), func(p *messages.Preemption) bool { return p.GetReplica() == replica })
}

// spec returns a stored deployment.
func (o *operator) spec(name string) *messages.DeploymentSpec {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stored[name]
}

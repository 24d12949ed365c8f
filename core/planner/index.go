package planner

import "troupe/core/schedule"

// index finds what a plan says of a model or replica.
type index struct {
	assigned   map[string][]schedule.Assignment // by model
	wants      map[string]int                   // by model
	departures map[string]string                // why replicas leave
}

func indexOf(plan *schedule.Plan) index {
	x := index{make(map[string][]schedule.Assignment), make(map[string]int, len(plan.Wants)), make(map[string]string)}
	for _, a := range plan.Assignments {
		x.assigned[a.Model] = append(x.assigned[a.Model], a)
	}
	for _, w := range plan.Wants {
		x.wants[w.Model] = w.Replicas
	}
	for _, d := range plan.Departures {
		x.departures[d.Replica] = d.Why
	}
	return x
}

// departure returns why a replica is withdrawn.
func (x *index) departure(replica string) string {
	if why := x.departures[replica]; why != "" {
		return why
	}
	return "it is no longer needed"
}

package schedule

import (
	"fmt"
	"time"

	"troupe/core/units"
)

// Urgency is how urgently a model wants a replica. A lower value comes first.
type Urgency uint8

// Urgencies.
const (
	Minimum  Urgency = iota // the model has fewer replicas than its minimum
	Wake                    // requests wait, and there is no replica
	Missed                  // the SLO is missed, or will be
	Headroom                // there is little headroom
	Fill                    // batch work that can use what is left
)

// String returns the name of the urgency.
func (u Urgency) String() string {
	return [...]string{"minimum", "wake", "SLO", "headroom", "batch"}[u]
}

// Want is how many replicas a model wants, by a policy. A policy never chooses devices.
type Want struct {
	Replicas int
	Urgency  Urgency // of those that are missing
	Why      string
}

// view is the data of a model that a policy sees.
type view struct {
	Model
	now     time.Time
	options Options
	memory  *ModelMemory
	have    int       // replicas that serve, start or are assigned, and need not leave
	up      int       // those that serve
	idle    int       // those that are assigned and have not begun
	settled time.Time // when the newest of those that serve began to
}

// policy decides how many replicas a model wants. It may update the memory of the model. Its number may be outside the
// limits of the deployment.
type policy interface {
	want(view) Want
}

// policies are the policies by their name in Options.
var policies = map[string]policy{"slo": slo{}, "threshold": threshold{}, "static": static{}}

// limit applies the limits of the deployment.
func (v view) limit(w Want) Want {
	if w.Replicas > v.have {
		v.memory.LowSince = time.Time{}
	}
	switch {
	case w.Replicas < v.Min:
		return Want{v.Min, Minimum, "at least " + units.Count(v.Min, "replica")}
	case w.Replicas > v.Max:
		w.Replicas, w.Why = v.Max, w.Why+"; at most "+units.Count(v.Max, "replica")
	}
	if v.have < v.Min {
		w.Urgency = Minimum
	}
	return w
}

// fixed returns the number of replicas if the load of the replicas does not decide it: the model sleeps, wakes, or does
// not serve yet. Otherwise it reports false.
func (v view) fixed() (Want, bool) {
	d := v.Demand
	idle := v.options.Idle(v.IdleAfter)
	switch work := d.sequences(); {
	case v.have == 0 && work > 0:
		return Want{1, Wake, fmt.Sprintf("%s %s, and no replica serves", units.Count(work, "request"),
			units.Verb(work, "waits", "wait"))}, true
	case v.have == 0:
		return Want{0, Wake, "no request has come"}, true
	case work == 0 && v.Min == 0 && !d.Last.IsZero() && v.now.Sub(d.Last) >= idle:
		return Want{0, Wake, fmt.Sprintf("no request for %s", v.now.Sub(d.Last).Round(time.Second))}, true
	case v.up == 0:
		return Want{v.have, Wake, "its replicas do not serve yet"}, true
	}
	return Want{}, false
}

// static is the policy of a fixed number of replicas.
type static struct{}

func (static) want(v view) Want {
	return Want{v.Replicas, Headroom, "deployed with " + units.Count(v.Replicas, "replica")}
}

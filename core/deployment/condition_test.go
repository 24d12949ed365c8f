package deployment

import (
	"slices"

	"pgregory.net/rapid"
)

// checkCondition checks the condition of a deployment whose replicas are where they are wanted, and at their
// levels. The planner may have refused the replicas that are missing.
func (c *cluster) checkCondition(want map[string]Location) {
	missing := c.d.spec.Wanted() - len(want)
	all := missing == 0 && len(want) > 0 && c.stored
	if failure := c.d.failure; all && failure != nil && !c.outdated(ReplicaServing, ReplicaStandby) {
		c.t.Fatalf("condition: nothing is missing, and the failure stays: %s", failure.Detail)
	}
	refusal := PlacementRefused{Stored: uint64(c.revision), Missing: missing, Failure: Failure{Reason: NoMemory,
		Detail: "no room"}}
	refused := c.stored && missing > 0 && rapid.Bool().Draw(c.t, "refused")
	if refused {
		refusal.Later = rapid.Bool().Draw(c.t, "room soon")
		c.handle(refusal)
	}
	expected := []Condition{c.condition(want, missing)}
	if failure := c.d.failure; expected[0] == ConditionPending && failure != nil {
		switch soon := refused && refusal.Later; {
		case failure.unplaced && !soon, failure.Reason == Unsupported || failure.Reason == LoadFailed:
			expected[0] = ConditionFailed
		case !failure.unplaced:
			expected = append(expected, ConditionFailed)
		}
	}
	s := c.d.Status()
	if !slices.Contains(expected, s.Condition) {
		c.t.Fatalf("condition: %s (%s), want one of %v; %d replicas run, %d are missing, refused: %v, failure %+v",
			s.Condition, s.Detail, expected, len(want), missing, refused, c.d.failure)
	}
	if serving := c.serving(); s.Serving != serving {
		c.t.Fatalf("condition: %d replicas serve, want %d", s.Serving, serving)
	}
}

// condition returns the condition of the deployment. One of which no replica serves, and that has failed, may be
// failed instead of pending.
func (c *cluster) condition(want map[string]Location, missing int) Condition {
	spec, serving, wanted := c.spec, c.serving(), c.wantsServing(want, missing)
	switch standby := len(want) - serving; {
	case !c.stored:
		return ConditionRemoving
	case spec.Level == Parked, len(want)+missing == 0 && spec.Replicas > 0 && len(spec.parked()) > 0:
		return ConditionParked
	case spec.Replicas == 0 && spec.Sleeps:
		return ConditionAsleep
	case len(want)+missing == 0:
		return ConditionStopped
	case wanted == 0 && missing == 0 && standby > 0:
		return ConditionStandby
	case wanted == 0:
		return ConditionPending
	case serving > 0 && serving < wanted, serving > 0 && c.outdated(ReplicaServing) && c.d.failure != nil:
		return ConditionDegraded
	case serving > 0:
		return ConditionReady
	case spec.Sleeps && c.d.failure == nil && (len(want) > 0 || c.starts()):
		return ConditionWaking
	}
	return ConditionPending
}

// starts reports whether a replica starts without another plan, when its node is there.
func (c *cluster) starts() bool {
	for name, a := range c.spec.Assigned {
		if len(a.After) == 0 && len(a.GPUs) == 1 && !c.failed[assignmentID{name, a.At}] {
			return true
		}
	}
	return false
}

// serving returns the number of replicas that serve.
func (c *cluster) serving() (n int) {
	for _, node := range c.up {
		for _, r := range c.nodes[node].replicas {
			if r.state == ReplicaServing {
				n++
			}
		}
	}
	return n
}

// wantsServing returns the number of replicas that are to serve. Those that are missing will have the level of the
// deployment.
func (c *cluster) wantsServing(want map[string]Location, missing int) (n int) {
	for name := range want {
		if c.stateOf(name) == ReplicaServing {
			n++
		}
	}
	if c.spec.Level != OnStandby {
		n += missing
	}
	return n
}

// outdated reports whether a replica in one of some states does not match the spec.
func (c *cluster) outdated(states ...ReplicaState) bool {
	for _, node := range c.up {
		for _, r := range c.nodes[node].replicas {
			files := c.spec.Revision.Digest
			if slices.Contains(states, r.state) && (r.spec.MaxSequences != c.spec.MaxSequences ||
				files != "" && r.spec.Revision.Digest != files ||
				files == "" && r.spec.Revision.Deploy != c.spec.Revision.Deploy) {
				return true
			}
		}
	}
	return false
}

// lastPlan stores a plan for the end: it tries again what failed, and has no replica that an operator has taken
// away. It may lack a replica.
func (c *cluster) lastPlan() {
	next := make(map[string]Assignment)
	for name, a := range c.spec.Assigned {
		r, left := c.d.replicas[name], c.d.lastPlacement[name] != Location{}
		if c.d.takenAway(name) || r != nil && r.phase < Up && !c.d.current(r) {
			continue
		}
		if c.failed[assignmentID{name, a.At}] {
			a.At = c.now
		}
		if left || r != nil { // nothing has to leave for it
			a.After = nil
		}
		next[name] = a
	}
	c.spec.Planned, c.spec.Assigned, c.spec.Withdrawn = true, next, nil
	for _, name := range playedNames {
		if _, assigned := next[name]; !assigned {
			c.spec.Withdrawn = append(c.spec.Withdrawn, name)
		}
	}
	taken := len(c.spec.Preemptions)
	if c.spec.Level != Parked {
		taken += len(c.spec.parked())
	}
	c.spec.Replicas = len(next) + taken + rapid.IntRange(0, 1).Draw(c.t, "missing")
	c.apply()
}

package deployment

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/preempt"
	"troupe/core/schedule"
)

// assignmentID tells assignments of one name apart.
type assignmentID struct {
	replica string
	at      time.Time
}

var playedNames = []string{"m-0", "m-1", "m-2", "m-3"}

// plan stores a random plan. Assignments that it keeps have their time.
func (c *cluster) plan(t *rapid.T) {
	next := make(map[string]Assignment)
	for _, name := range playedNames {
		last, had := c.spec.Assigned[name]
		switch rapid.IntRange(0, 4).Draw(t, "assignment") {
		case 0:
		case 1, 2:
			if had {
				last.After = nil
				next[name] = last
			}
		default:
			a := Assignment{Node: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"), GPUs: []string{"gpu-0"},
				At: c.now.Add(time.Duration(c.revision))}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				a.GPUs = append(a.GPUs, "gpu-1")
			case 1, 2:
				a.After = []string{"x-0"}
			}
			next[name] = a
		}
	}
	c.spec.Planned, c.spec.Assigned, c.spec.Replicas, c.spec.Withdrawn = true, next, len(next), nil
	for _, name := range playedNames {
		if next[name].Node == "" && rapid.IntRange(0, 1).Draw(t, "withdrawn") == 0 {
			c.spec.Withdrawn = append(c.spec.Withdrawn, name)
		}
	}
	c.apply()
}

// refuse reports that the planner lacks room, perhaps for an earlier spec.
func (c *cluster) refuse(t *rapid.T) {
	older := rapid.IntRange(0, 1).Draw(t, "older")
	e := PlacementRefused{
		Stored: uint64(c.revision - older), Missing: rapid.IntRange(0, 1).Draw(t, "missing"),
		Failure: Failure{Reason: NoMemory, Detail: "no room"},
	}
	before := c.d.failure
	c.handle(e)
	switch is := c.d.failure; {
	case older > 0 && is != before:
		c.t.Fatalf("refused: %v, by a refusal of an earlier spec", is)
	case older == 0 && e.Missing > 0 && c.d.state == Active && is == nil:
		c.t.Fatal("refused: it has no failure")
	case older == 0 && e.Missing == 0 && is != nil && is.unplaced && c.d.state == Active:
		c.t.Fatalf("refused: %v, though nothing is missing", is)
	}
}

// checkStart checks that a replica starts only where it is assigned, and only once.
func (c *cluster) checkStart(e StartReplica, before view) {
	name := e.Spec.Name
	if before.phases[name] == Starting {
		return
	}
	a, assigned := c.spec.Assigned[name]
	at, single := a.location()
	switch {
	case !c.spec.Planned:
		if before.leases[name] != e.Spec.At && c.d.lastPlacement[name] != e.Spec.At {
			c.t.Fatalf("planned: %s is started on %v, and there is no plan", name, e.Spec.At)
		}
	case !assigned || !single || at != e.Spec.At:
		c.t.Fatalf("planned: %s is started on %v, assigned is %+v", name, e.Spec.At, a)
	case len(a.After) > 0 && before.leases[name] != at && c.d.lastPlacement[name] != at:
		c.t.Fatalf("planned: %s is started on %v, assigned is %+v", name, e.Spec.At, a)
	case c.failed[assignmentID{name, a.At}]:
		c.t.Fatalf("failed: %s is started again on %v", name, e.Spec.At)
	case c.spec.Level == Parked:
		c.t.Fatalf("held: %s is started, and the deployment is parked", name)
	}
}

// checkAttempts notes the assignments whose replicas failed by an event, and forgets those that serve
// nevertheless.
func (c *cluster) checkAttempts(e Event, before view) {
	fails, stale, last := true, false, Up
	switch e := e.(type) {
	case Reported:
		fails = e.Report.State == ReplicaFailed || e.Report.Fault != (Fault{})
		if e.Report.Fault != (Fault{}) { // also while it drains
			last = Draining
		}
		at, left := before.leases[e.Report.Replica]
		r := c.d.replicas[e.Report.Replica]
		stale = e.Report.Found != "" && left && r != nil && r.spec.At == at
	case Exited:
	default:
		return
	}
	for name, r := range c.d.replicas {
		a, assigned := c.spec.Assigned[name]
		id, was := assignmentID{name, a.At}, before.phases[name]
		at, single := a.location()
		switch {
		case !assigned || !single || at != r.spec.At:
		case r.phase == Up && was != Up:
			delete(c.failed, id)
		case r.phase == Stopping && was <= last && fails && !stale:
			c.failed[id] = true
		}
	}
}

// mustLeave reports whether a replica leaves by the plan: it is withdrawn, or assigned to another GPU.
func (c *cluster) mustLeave(r *replica) bool {
	_, assigned := c.spec.Assigned[r.spec.Name]
	return c.spec.Level == Parked || c.spec.Planned && !c.d.assignedAt(r.spec.Name, r.spec.At) &&
		(assigned || c.withdrawn[r] || slices.Contains(c.spec.Withdrawn, r.spec.Name) ||
			c.spec.Rest == schedule.Stopped)
}

// checkPlan checks that replicas are where they are assigned, and are reported.
func (c *cluster) checkPlan() {
	if c.d.state != Active {
		return
	}
	for name, r := range c.d.replicas {
		if r.phase <= Up && c.mustLeave(r) && c.d.allNodesReported(c.now) {
			c.t.Fatalf("withdrawn: %s is %v on %v, assigned is %+v", name, r.phase, r.spec.At, c.spec.Assigned[name])
		}
		if unassigned := c.d.progressOf(name).At.IsZero(); !c.d.assignedAt(name, r.spec.At) && !unassigned {
			c.t.Fatalf("offered: %s is reported as assigned to %v", name, r.spec.At)
		}
	}
	reported := make(map[string]bool)
	for _, p := range c.d.Status().Replicas {
		a := c.spec.Assigned[p.Replica]
		if reported[p.Replica] || !p.At.IsZero() && !p.At.Equal(a.At) {
			c.t.Fatalf("reported: %+v, assigned is %+v", p, a)
		}
		failed, mine := c.failed[assignmentID{p.Replica, a.At}], !p.At.IsZero() && len(a.GPUs) == 1
		if mine && failed != (p.Failure != "") {
			c.t.Fatalf("reported: %+v, failed: %v", p, failed)
		}
		reported[p.Replica] = true
	}
	for _, name := range slices.Concat(sorted(c.d.replicas), sorted(c.spec.Assigned)) {
		if !reported[name] {
			c.t.Fatalf("reported: %s is missing", name)
		}
	}
}

// converge ends all faults, stores a last plan, answers all commands for a while, and checks that the
// deployment matches the plan.
func (c *cluster) converge() {
	if digest := c.spec.Revision.Digest; digest != "" {
		c.files = digest
	}
	for _, n := range c.nodes {
		n.draining, n.quarantined, n.broken = false, false, false
	}
	c.members()
	c.settle(40)
	if c.stored {
		c.lastPlan()
	}
	c.settle(700)
	for _, p := range c.d.preemptions {
		if p.machine.Phase() != preempt.Ended {
			c.t.Fatalf("converges: the preemption of %s is %v", p.Replica, p.machine.Phase())
		}
	}
	want := make(map[string]Location)
	for name, a := range c.spec.Assigned {
		at, single := a.location()
		if single && c.stored && c.alive(a.Node) != nil && len(a.After) == 0 && !c.d.takenAway(name) &&
			c.spec.Level != Parked {
			want[name] = at
		}
	}
	running := make(map[string]Location)
	for _, node := range c.up {
		for name, r := range c.nodes[node].replicas {
			running[name] = r.spec.At
			if known := c.d.replicas[name]; known == nil || known.phase != Up || r.state != c.stateOf(name) {
				c.t.Fatalf("converges: %+v on %s is %+v", r, node, known)
			}
		}
	}
	if !maps.Equal(running, want) || len(c.d.replicas) != len(want) || len(c.d.orphans) > 0 ||
		len(c.d.lastPlacement) > 0 {
		c.t.Fatalf("converges: %v run, %d are known, want %v; orphans %v, leases of exited ones %v", running,
			len(c.d.replicas), want, c.d.orphans, c.d.lastPlacement)
	}
	c.checkCondition(want)
}

// settle answers all commands for some seconds, in which replicas finish their sequences and report.
func (c *cluster) settle(seconds int) {
	for range seconds {
		c.tick(time.Second)
		for len(c.pending) > 0 {
			e := c.pending[0]
			c.pending = c.pending[1:]
			c.answer(e)
			c.check()
		}
		for _, name := range c.up {
			for _, r := range c.nodes[name].names() {
				c.nodes[name].replicas[r].load = 0
				c.report(c.nodes[name].replicas[r].actor)
			}
		}
	}
}

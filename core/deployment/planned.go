package deployment

import (
	"slices"
	"strings"
	"time"

	"troupe/core/schedule"
)

// follow starts the replicas that are assigned, and retires those that are withdrawn.
func (d *Deployment) follow(now time.Time) {
	for _, name := range sorted(d.replicas) {
		if why, surplus := d.whyLeaves(d.replicas[name]); why != "" {
			d.retire(d.replicas[name], why, surplus, now)
		}
	}
	d.freeLeases()
	d.forgiveFailure()
	if d.spec.Level == Parked {
		return
	}
	for _, name := range sorted(d.spec.Assigned) {
		d.startAssigned(name, now)
	}
	for _, name := range sorted(d.lastPlacement) {
		if !d.spec.Planned {
			d.startAt(name, d.lastPlacement[name], "its memory is there", now)
		}
	}
}

// whyLeaves returns why a replica is retired, and whether fewer are wanted; empty: it stays, or it leaves
// already.
func (d *Deployment) whyLeaves(r *replica) (why string, surplus bool) {
	a, assigned := d.spec.Assigned[r.spec.Name]
	switch {
	case r.phase > Up:
		return "", false
	case d.spec.Level == Parked:
		return "the deployment is parked", true
	case d.assignedAt(r.spec.Name, r.spec.At):
		return "", false
	case assigned:
		return "it is assigned to " + a.Node + "/" + strings.Join(a.GPUs, "+"), false
	case r.withdrawn, slices.Contains(d.spec.Withdrawn, r.spec.Name), d.spec.Rest == schedule.Stopped:
		return "it is no longer assigned", d.shrinks && d.current(r) // else it was replaced
	}
	return "", false // it came back, or an earlier term started it; the planner decides about it
}

// forgiveFailure forgets a failure once the replicas that are wanted serve, or are on standby if none is to serve.
// They may have done so before it.
func (d *Deployment) forgiveFailure() {
	serving, standing := 0, 0
	for _, r := range d.replicas {
		switch {
		case !d.current(r):
		case r.serving():
			serving++
		case r.standing():
			standing++
		}
	}
	want := d.wantedActive()
	if serving > 0 && serving >= want || want == 0 && standing > 0 && standing >= d.spec.Wanted() {
		d.failure = nil
	}
}

// freeLeases frees the memory of replicas that exited and are not started there again.
func (d *Deployment) freeLeases() {
	before := len(d.orphans)
	for _, name := range sorted(d.lastPlacement) {
		at := d.lastPlacement[name]
		if d.replicas[name] != nil || d.spec.Level != Parked && d.assignedAt(name, at) {
			continue
		}
		delete(d.lastPlacement, name)
		if d.nodes[at.Node] != nil {
			d.orphans[orphan{at.Node, name}] = at
		}
	}
	if len(d.orphans) > before {
		d.stopOrphans()
	}
}

// startAssigned starts the replica of an assignment, unless it failed, or waits for others to leave. One that
// exited has its memory already.
func (d *Deployment) startAssigned(name string, now time.Time) {
	a := d.spec.Assigned[name]
	at, single := a.location()
	_, failed := d.attempts[name]
	_, left := d.lastPlacement[name]
	switch {
	case d.replicas[name] != nil || failed || len(a.After) > 0 && !left:
	case !single:
		d.failSplit(name, a, now)
	default:
		d.startAt(name, at, a.Why, now)
	}
}

// startAt starts a replica on a GPU, unless an operator has taken it away, the GPU cannot start it now, or
// the memory that it needs is unknown and it has none from before it exited.
func (d *Deployment) startAt(name string, at Location, why string, now time.Time) {
	_, leaves := d.orphans[orphan{at.Node, name}]
	last, left := d.lastPlacement[name]
	switch {
	case d.replicas[name] != nil, d.takenAway(name), leaves:
		return
	case !d.schedulable(at.Node), d.quarantined[at]:
		return
	case !d.sized && !(left && last == at):
		return
	}
	d.emit(Placed{name, at, why})
	r := d.add(name, d.replicaSpec(name))
	r.spec.At, d.unplaced = at, false
	d.fire(r, assigned, none, now)
}

// inspect requests the memory that a replica needs, for the planner, unless it is known.
func (d *Deployment) inspect() {
	for _, e := range d.effects {
		if _, requested := e.(Inspect); requested {
			return
		}
	}
	if d.state == Active && !d.sized {
		d.emit(Inspect{d.spec.Engine.Kind, d.spec.Path})
	}
}

// lacksReplicas reports whether fewer replicas are there than are wanted, or requests wait for one.
func (d *Deployment) lacksReplicas() bool {
	there := 0
	for _, r := range d.replicas {
		if r.phase <= Up {
			there++
		}
	}
	return there < d.spec.Wanted() || d.wake.wakes() > 0
}

// waitsForPlanner reports whether no replica is there, or will be unless the planner assigns one.
func (d *Deployment) waitsForPlanner() bool {
	if d.state != Active || len(d.replicas) > 0 {
		return false
	}
	for name, a := range d.spec.Assigned {
		if _, failed := d.attempts[name]; !failed && len(a.After) == 0 {
			return false
		}
	}
	return true
}

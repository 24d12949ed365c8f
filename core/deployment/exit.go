package deployment

import "time"

// replicaExit is an exit of a replica.
type replicaExit struct {
	at     Location
	when   time.Time
	served bool
}

// onExited handles a replica that crashed too often or found its device lost. If the node is alive,
// the lease remains, and the replica is restarted at once on the GPU of its lease. If it exits
// there again within crashWindow, its lease is released and its assignment has failed. One that
// exits while it drains is not restarted: its memory is freed.
func (d *Deployment) onExited(e Exited, now time.Time) {
	for _, name := range d.named(e.Actor) {
		r := d.replicas[name]
		at, last := r.spec.At, d.lastExit[name]
		holds, leaving := none, r.phase == Draining
		if !leaving && r.preemption == nil && (last.at != at || now.Sub(last.when) > crashWindow) {
			holds = restartable
		}
		if !d.fire(r, exited, holds, now) {
			continue
		}
		d.emit(Terminated{name, e.Why})
		if !leaving {
			d.lastExit[name] = replicaExit{at, now, r.served}
		}
		switch {
		case r.preemption != nil:
			d.tellPreemption(r.preemption, r, r.preemption.machine.Lost("replica "+name+" stopped: "+e.Why, now), now)
		case leaving:
		case holds == restartable:
			d.lastPlacement[name] = at
		default:
			r.served = r.served || last.served
			d.failExits(name, at, now)
		}
	}
	d.reconcile(now)
}

// failExits fails the assignment of a replica that keeps exiting on its GPU. The planner may have another one.
func (d *Deployment) failExits(name string, at Location, now time.Time) {
	f := Failure{Reason: EngineFailed, elsewhere: true, Detail: "replica " + name + " exited twice within " +
		crashWindow.String() + " on " + at.String() + "; see the log of node " + at.Node}
	d.failAssignment(name, at, f.Detail, now)
	d.fail(f)
}

// onUnreachable handles a broken connection to a replica's node. If the node has left, Members will
// follow. Otherwise the replica may still run, so the node is queried again.
func (d *Deployment) onUnreachable(e Unreachable, now time.Time) {
	for _, name := range d.named(e.Actor) {
		r := d.replicas[name]
		if !d.fire(r, unreachable, none, now) {
			continue
		}
		d.emit(Terminated{name, e.Why})
		if n := d.nodes[r.spec.At.Node]; n != nil {
			n.reported, n.since = false, now
			d.queryNode(r.spec.At.Node)
		}
	}
	d.reconcile(now)
}

// named returns the names of the replicas with an actor.
func (d *Deployment) named(actor Ref) (names []string) {
	for _, name := range sorted(d.replicas) {
		if actor != (Ref{}) && d.replicas[name].actor == actor {
			names = append(names, name)
		}
	}
	return names
}

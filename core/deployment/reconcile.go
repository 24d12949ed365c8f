package deployment

import "time"

// reconcile applies changes until the next one has to wait.
func (d *Deployment) reconcile(now time.Time) {
	if d.state == Unknown || !d.allNodesReported(now) {
		return
	}
	defer d.announce()
	if d.state == Removing { // all replicas leave
		d.spec.Preemptions, d.spec.Planned, d.spec.Assigned = nil, true, nil
	}
	d.startPreemptions(now)
	d.parkReplicas(now)
	if d.state == Removing {
		d.removeAll(now)
		return
	}
	d.follow(now)
}

// removeAll retires the replicas of a deleted deployment and frees the memory of those that exited, until
// nothing is left.
func (d *Deployment) removeAll(now time.Time) {
	for _, name := range sorted(d.replicas) {
		if r := d.replicas[name]; r.phase <= Up {
			d.retire(r, "the deployment was deleted", true, now)
		}
	}
	d.freeLeases()
	if len(d.replicas) == 0 && len(d.orphans) == 0 {
		d.emit(Gone{})
	}
}

// retire drains a replica.
func (d *Deployment) retire(r *replica, why string, surplus bool, now time.Time) {
	d.emit(Retiring{r.spec.Name, why})
	r.drainCause, r.surplus = why, surplus
	d.markDrop(r)
	d.fire(r, retired, none, now)
}

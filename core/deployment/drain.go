package deployment

import (
	"time"

	"troupe/core/schedule"
)

// drainOver reports whether the drain is over. The sessions of the remaining sequences resume them
// elsewhere.
func (d *Deployment) drainOver(r *replica, now time.Time) bool {
	timeout := drainTimeout
	if d.noMigrationTarget(r) || d.spec.Rest == schedule.Asleep {
		timeout = finishTimeout
	}
	switch r.last().State {
	case ReplicaServing, ReplicaSuspending, ReplicaDraining:
		return now.Sub(r.since) > timeout
	}
	return true
}

// migrate migrates the sequences of a replica that does not keep them to the least loaded one with the
// same files.
func (d *Deployment) migrate(r *replica, why string) {
	if r.migrating != "" {
		return
	}
	if targets := d.migrationTargets(r); targets != nil {
		to := d.replicas[targets[0]]
		r.migrating = r.nextRequest()
		d.emit(MigrateSequences{
			Request: r.migrating, Replica: r.spec.Name, Actor: r.actor, Target: to.spec.Name, TargetActor: to.actor,
			Cause: r.spec.Name + " " + why,
		})
	}
}

func (d *Deployment) onMigrated(e Migrated, now time.Time) {
	r := d.replicas[e.Replica]
	if r == nil {
		return
	}
	if r.migrating == e.Request {
		r.migrating = "" // the next Tick migrates the rest
	}
	if p := r.preemption; p != nil && p.request == e.Request {
		p.request = ""
		d.tellPreemption(p, r, p.machine.Migrated(p.round, d.migrationTargets(r), now), now)
	}
}

func (d *Deployment) onDrained(e Drained, now time.Time) {
	r := d.find(e.Replica, drained)
	switch {
	case r == nil:
	case r.preemption != nil:
		r.preemption.machine.Count(e.Departures)
		d.tellPreemption(r.preemption, r, r.preemption.machine.Drained(now), now)
	default:
		d.fire(r, drained, none, now)
	}
}

// noMigrationTarget reports whether other replicas serve, but none of them can resume the sequences
// of a draining one.
func (d *Deployment) noMigrationTarget(r *replica) bool {
	others := false
	for _, other := range d.replicas {
		if other == r || !other.serving() {
			continue
		}
		if sameFiles(other, r) {
			return false
		}
		others = true
	}
	return others
}

// sameFiles reports whether sequences can migrate between two replicas, according to their last
// reports.
func sameFiles(a, b *replica) bool {
	x, y := a.last().Revision, b.last().Revision
	return x == "" || y == "" || x == y
}

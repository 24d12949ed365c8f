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

// migrate migrates the sequences of a replica that does not keep them to the least loaded one with the same files.
func (d *Deployment) migrate(r *replica, why string) {
	if r.migrating {
		return
	}
	var to *replica
	for _, name := range sorted(d.replicas) {
		other := d.replicas[name]
		if other != r && other.serving() && sameFiles(other, r) && (to == nil || other.last().Load < to.last().Load) {
			to = other
		}
	}
	if to != nil {
		r.migrating = true
		d.emit(MigrateSequences{
			Replica: r.spec.Name, Actor: r.actor, Target: to.spec.Name, TargetActor: to.actor,
			Cause: r.spec.Name + " " + why,
		})
	}
}

func (d *Deployment) onMigrated(e Migrated) {
	if r := d.replicas[e.Replica]; r != nil {
		r.migrating = false // the next Tick migrates the rest
	}
}

func (d *Deployment) onDrained(e Drained, now time.Time) {
	if r := d.find(e.Replica, drained); r != nil {
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

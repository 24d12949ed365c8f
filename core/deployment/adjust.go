package deployment

import (
	"fmt"
	"time"

	"troupe/core/schedule"
)

// adjust adds and retires replicas of a deployment that the planner has not planned, until their number
// is the one that is wanted. It chooses the GPUs.
func (d *Deployment) adjust(now time.Time) {
	for range len(d.replicas) + 1 {
		change := schedule.NextChange(d.spec.Wanted(), false, d.noRoom, d.scheduleInput())
		switch change.Kind {
		case schedule.Add:
			if !d.addReplica(now) {
				return
			}
		case schedule.Remove:
			d.retire(d.replicas[change.Replica], change.Why, change.Surplus, now)
		default:
			return
		}
	}
}

// scheduleInput returns the replicas as core/schedule sees them.
func (d *Deployment) scheduleInput() []schedule.Replica {
	input := make([]schedule.Replica, 0, len(d.replicas))
	for _, name := range sorted(d.replicas) {
		r := d.replicas[name]
		input = append(input, schedule.Replica{
			Name: name, Node: r.spec.At.Node, GPU: r.spec.At.GPU, Stage: r.phase.stage(), Current: d.current(r),
			Evicted: r.phase > Starting && d.evicted(r), Moving: d.hasSubstitute(r), Load: r.last().Load,
			Need: r.memory,
		})
	}
	return input
}

func (p Phase) stage() schedule.Stage {
	switch p {
	case Placing, Starting:
		return schedule.Unplaced
	case Loading:
		return schedule.Loading
	case Up:
		return schedule.Serving
	default:
		return schedule.Draining
	}
}

// addReplica starts placing a new replica and reports true. If the model has not been inspected, it
// starts the inspection and reports false. It prefers the name of an exited replica whose lease
// remains.
func (d *Deployment) addReplica(now time.Time) bool {
	if !d.sized {
		d.waitsForNeed = true
		d.emit(Inspect{d.spec.Engine.Kind, d.spec.Path})
		return false
	}
	name := ""
	for _, n := range sorted(d.lastPlacement) {
		if d.replicas[n] == nil && !d.takenAway(n) {
			name = n
			break
		}
	}
	if name == "" {
		name = d.newReplicaName()
	}
	d.fire(d.add(name, d.replicaSpec(name)), added, none, now)
	return true
}

// newReplicaName returns the first unused name. Names of replicas on lost nodes, of preempted
// and parked replicas, and names with a last placement count as used.
func (d *Deployment) newReplicaName() string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", d.name, n)
		_, left := d.lastPlacement[name]
		if d.replicas[name] == nil && !d.reservedNames[name] && !d.takenAway(name) && !left {
			return name
		}
	}
}

package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"troupe/core/preempt"
	"troupe/core/residency"
)

// Preemption is a stored preemption of a replica. core/preempt decides how it proceeds.
type Preemption struct {
	ID       string
	Replica  string
	At       Location // of the replica's memory
	Deadline time.Time
	Drop     bool // its weights are freed
	Park     bool // they move to the host cache of the node
}

// PreemptionStatus is the progress of a preemption.
type PreemptionStatus struct {
	Preemption
	preempt.Progress
}

// preemption is a preemption in progress, or one that has ended and is still stored.
type preemption struct {
	Preemption
	machine *preempt.Machine
	request string // of the migration command in progress; empty: none
	round   uint64
}

// startPreemptions starts the stored preemptions. After a crash of the deployment it starts them
// again. A replica that is no longer known is stopped, since its memory may remain.
func (d *Deployment) startPreemptions(now time.Time) {
	d.prunePreemptions()
	for _, stored := range d.spec.Preemptions {
		p, r := d.preemption(stored), d.replicas[stored.Replica]
		switch _, orphaned := d.orphans[p.orphan()]; {
		case p.machine.Phase() == preempt.Ended, r != nil && r.preemption == p, r == nil && orphaned:
		case r != nil:
			d.attach(p, r, now)
		default:
			d.stopUnknown(p, now)
		}
	}
}

// preemption returns the preemption with the stored one's id.
func (d *Deployment) preemption(stored Preemption) *preemption {
	i := slices.IndexFunc(d.preemptions, func(p *preemption) bool { return p.ID == stored.ID })
	if i < 0 {
		i = len(d.preemptions)
		d.preemptions = append(d.preemptions, &preemption{Preemption: stored, machine: preempt.New(stored.Deadline)})
	}
	return d.preemptions[i]
}

// prunePreemptions forgets the preemptions that are no longer stored, and have ended or have lost their
// replica with the connection to its node.
func (d *Deployment) prunePreemptions() {
	d.preemptions = slices.DeleteFunc(d.preemptions, func(p *preemption) bool {
		stored := slices.ContainsFunc(d.spec.Preemptions, func(s Preemption) bool { return s.ID == p.ID })
		_, orphaned := d.orphans[p.orphan()]
		r := d.replicas[p.Replica]
		going := p.machine.Phase() != preempt.Ended && (orphaned || r != nil && r.preemption == p)
		return !stored && !going
	})
}

func (p *preemption) orphan() orphan { return orphan{p.At.Node, p.Replica} }

// attach preempts a replica. One that was found again is fenced again.
func (d *Deployment) attach(p *preemption, r *replica, now time.Time) {
	p.machine = preempt.New(p.Deadline)
	r.preemption, r.drainCause = p, "preempted by replicas.preempt"
	r.drop, r.park = r.drop || p.Drop, r.park || p.Park
	delete(d.lastPlacement, p.Replica)
	d.emit(Retiring{p.Replica, r.drainCause})
	switch r.phase {
	case Draining:
		d.command(r, now)
		return
	case Stopping:
		d.tellPreemption(p, r, p.machine.Start(now), now)
		d.tellPreemption(p, r, p.machine.Lost("replica "+p.Replica+" was stopping already", now), now)
		return
	}
	if d.fire(r, retired, none, now); r.phase == Absent { // it was not placed yet
		d.tellPreemption(p, nil, p.machine.Start(now), now)
		d.tellPreemption(p, nil, p.machine.Gone("replica "+p.Replica+" was not placed yet", now), now)
	}
}

// stopUnknown stops a replica that its node did not report: it is being stopped already, it has
// ended, or its node is lost.
func (d *Deployment) stopUnknown(p *preemption, now time.Time) {
	why := "replica " + p.Replica + " is not on node " + p.At.Node
	p.machine = preempt.New(p.Deadline)
	d.tellPreemption(p, nil, p.machine.Start(now), now)
	if d.nodes[p.At.Node] == nil {
		d.tellPreemption(p, nil, p.machine.Gone(why, now), now)
		return
	}
	d.tellPreemption(p, nil, p.machine.Lost(why, now), now)
	d.orphans[p.orphan()] = p.At
	if d.lastPlacement[p.Replica] == p.At { // it has exited
		delete(d.lastPlacement, p.Replica)
	}
	d.stopOrphans()
}

// fateOfOrphan returns what becomes of the weights of an orphan, which may have been preempted or parked.
func (d *Deployment) fateOfOrphan(o orphan) residency.Fate {
	drop, park := false, slices.Contains(d.spec.parked(), o.replica)
	for _, p := range d.preemptions {
		if p.orphan() == o {
			drop, park = drop || p.Drop, park || p.Park
		}
	}
	return d.fate(drop, park)
}

// continuePreemption starts the preemption of a replica, or repeats its command.
func (d *Deployment) continuePreemption(r *replica, now time.Time) {
	p := r.preemption
	if p.machine.Phase() == preempt.Created {
		d.tellPreemption(p, r, p.machine.Start(now), now)
		d.observePreemption(r, now)
		return
	}
	d.tellPreemption(p, r, p.machine.Tick(d.migrationTargets(r), now), now)
}

// observePreemption tells a preemption what its replica reported last.
func (d *Deployment) observePreemption(r *replica, now time.Time) {
	p := r.preemption
	if p == nil || r.phase < Draining {
		return
	}
	p.machine.Count(r.last().Departures)
	switch r.last().State {
	case ReplicaServing, ReplicaSuspending, ReplicaStandby: // it has not received the fence
	case ReplicaDraining:
		if p.machine.Phase() == preempt.Fencing {
			d.tellPreemption(p, r, p.machine.Fenced(d.migrationTargets(r), now), now)
		}
	default:
		d.tellPreemption(p, r, p.machine.Lost("replica "+p.Replica+" does not serve", now), now)
	}
}

// tellPreemption carries out the effects of a preemption. r is nil if the deployment does not know
// the replica.
func (d *Deployment) tellPreemption(p *preemption, r *replica, effects []preempt.Effect, now time.Time) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case preempt.Entered:
			p.request = ""
			d.emit(Preempting{p.Replica, e.Phase, p.machine.Progress()})
			d.announce()
		case preempt.SetTimer:
			d.emit(PreemptAfter{p.Replica, e.After})
		}
		if r == nil {
			continue
		}
		switch e := effect.(type) {
		case preempt.Fence:
			d.emit(DrainReplica{p.Replica, r.spec.At.Node})
		case preempt.Migrate:
			d.migratePreempted(p, r, e, now)
		case preempt.Save:
			d.emit(SaveSequences{p.Replica, r.spec.At.Node})
		case preempt.Free:
			if r.phase == Draining {
				d.fire(r, drained, none, now)
			}
		}
	}
}

// migratePreempted migrates the sequences of a preempted replica to a target. A repeated command has
// the same id, and each round another one.
func (d *Deployment) migratePreempted(p *preemption, r *replica, e preempt.Migrate, now time.Time) {
	if p.round != e.Round || p.request == "" {
		p.round, p.request = e.Round, r.nextRequest()
	}
	to := d.replicas[e.Target]
	if to == nil { // lost meanwhile
		d.tellPreemption(p, r, p.machine.Migrated(e.Round, d.migrationTargets(r), now), now)
		return
	}
	d.emit(MigrateSequences{
		Request: p.request, Replica: p.Replica, Actor: r.actor, Target: e.Target, TargetActor: to.actor,
		Cause: p.Replica + " leaves: " + r.drainCause,
	})
}

// nextRequest returns the id of a new migration command. It differs from those of earlier
// incarnations of the deployment, whose answers the replica still has.
func (r *replica) nextRequest() string {
	r.requests++
	return fmt.Sprintf("%s/%d/%d", r.spec.Name, r.since.UnixNano(), r.requests)
}

// migrationTargets returns the replicas that can take the sequences of another one, the least loaded
// first.
func (d *Deployment) migrationTargets(r *replica) (names []string) {
	for _, name := range sorted(d.replicas) {
		other := d.replicas[name]
		stays := d.state == Removing || d.assignedAt(name, other.spec.At)
		if other != r && stays && other.serving() && sameFiles(other, r) {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(d.replicas[a].last().Load, d.replicas[b].last().Load)
	})
	return names
}

func (d *Deployment) onSaved(e Saved, now time.Time) {
	if r := d.replicas[e.Replica]; r != nil && r.preemption != nil {
		d.tellPreemption(r.preemption, r, r.preemption.machine.Saved(e.Blocks, e.Detail, now), now)
	}
}

func (d *Deployment) onPreemptTimer(e PreemptTimer, now time.Time) {
	if r := d.replicas[e.Replica]; r != nil && r.preemption != nil && r.phase == Draining {
		d.continuePreemption(r, now)
	}
}

// preemptionFreed ends the preemption of a replica whose memory is free.
func (d *Deployment) preemptionFreed(name string, now time.Time) {
	for _, p := range d.preemptions {
		if p.Replica == name {
			d.tellPreemption(p, nil, p.machine.Freed(now), now)
		}
	}
}

// reservedByPreemption reports whether a name belongs to a preempted replica.
func (d *Deployment) reservedByPreemption(name string) bool {
	return slices.ContainsFunc(d.spec.Preemptions, func(p Preemption) bool { return p.Replica == name })
}

package deployment

import (
	"fmt"
	"strings"
	"time"

	"troupe/core/preempt"
	"troupe/core/schedule"
)

// Report is the status report of a replica.
type Report struct {
	Replica     string
	Actor       Ref
	GPU         string
	State       ReplicaState
	Load        int    // sequences
	Weights     string // digest of the weights that it found
	Revision    string // digest of the files that it found
	Found       string // with ReplicaFailed: the revision that it found instead of its own
	FolderFault string // why the replica could not be loaded again; empty if it could
	Departures  preempt.Counts
	Fault       Fault
}

// Fault is a fault that a replica does not recover from by itself. The zero value is none.
type Fault struct {
	Detail  string
	Corrupt bool // its answers are wrong, so its weights are not used again
}

// ReplicaState is the state that a replica reports.
type ReplicaState uint8

const (
	ReplicaUnknown ReplicaState = iota
	ReplicaLoading
	ReplicaServing
	ReplicaSuspending
	ReplicaStandby
	ReplicaDraining
	ReplicaFailed
)

// replica is the deployment's view of one replica.
type replica struct {
	spec       ReplicaSpec
	phase      Phase
	since      time.Time // start of the phase
	progressed time.Time // start of the progress, which may have several phases
	actor      Ref
	report     *Report     // the last one; nil: none yet
	migrating  string      // id of the MigrateSequences in flight
	requests   int         // number of MigrateSequences so far
	preemption *preemption // nil: it is not preempted
	adopted    bool        // started by an earlier term or incarnation
	served     bool        // it has begun to serve, or was on standby
	drainCause string      // reason while it drains
	surplus    bool        // it is removed because fewer are wanted
	withdrawn  bool        // its last assignment was withdrawn
	drop       bool        // its weights are freed when it stops
	park       bool        // its weights move to the host cache when it stops
}

// last returns the last report, or an empty one.
func (r *replica) last() Report {
	if r.report == nil {
		return Report{}
	}
	return *r.report
}

// serving reports whether sequences may be sent to the replica.
func (r *replica) serving() bool { return r.phase == Up && r.last().State == ReplicaServing }

// revision returns the revision that a replica has loaded.
func (r *replica) revision() schedule.Revision {
	return schedule.Revision{Digest: r.last().Revision, Deploy: r.spec.Revision.Deploy}
}

// add adds a replica, which is absent until a transition.
func (d *Deployment) add(name string, spec ReplicaSpec) *replica {
	r := &replica{spec: spec}
	r.spec.Name = name
	d.replicas[name] = r
	return r
}

// fire applies a trigger to a replica by the table, and reports whether the phase has changed. It
// sends the command of the new phase.
func (d *Deployment) fire(r *replica, on Trigger, holds condition, now time.Time) bool {
	to, ok := next(r.phase, on, holds)
	switch {
	case !ok:
		d.emit(Ignored{d.state, r.spec.Name, r.phase, on})
		return false
	case to == r.phase:
		return false
	}
	if r.phase.progress() != to.progress() || r.progressed.IsZero() {
		r.progressed = now
	}
	r.phase, r.since = to, now
	if to == Absent {
		delete(d.replicas, r.spec.Name)
		d.absentSince[r.spec.Name] = now
		if on == freed {
			delete(d.lastPlacement, r.spec.Name)
		}
		return true
	}
	d.command(r, now)
	return true
}

// command sends the command of the replica's phase, for the first time or again.
func (d *Deployment) command(r *replica, now time.Time) {
	name, at := r.spec.Name, r.spec.At
	switch r.phase {
	case Starting:
		d.emit(StartReplica{r.spec})
	case Loading:
		d.emit(AskReplica{name, r.actor})
	case Draining:
		if r.preemption != nil {
			d.continuePreemption(r, now)
			return
		}
		if d.drainOver(r, now) {
			d.fire(r, drained, none, now)
			return
		}
		d.emit(DrainReplica{name, at.Node})
		d.migrate(r, "leaves: "+r.drainCause)
	case Stopping:
		d.emit(StopReplica{Request: r.stopRequest(), Replica: name, At: at, Weights: d.fate(r.drop, r.park)})
	}
}

// find returns a replica by name. If there is none, it reports the trigger as ignored.
func (d *Deployment) find(name string, on Trigger) *replica {
	r := d.replicas[name]
	if r == nil {
		d.emit(Ignored{d.state, name, Absent, on})
	}
	return r
}

func (d *Deployment) onAccepted(e Accepted, now time.Time) {
	r := d.find(e.Replica, accepted)
	if r == nil {
		return
	}
	if r.phase == Starting {
		r.actor = e.Actor
		d.emit(Watch{r.actor})
	}
	d.fire(r, accepted, none, now)
	d.reconcile(now)
}

// onReported handles a replica's report.
func (d *Deployment) onReported(e Reported, now time.Time) {
	r := d.find(e.Report.Replica, reported)
	if r == nil {
		return
	}
	if _, ok := next(r.phase, reported, none); !ok || r.actor != (Ref{}) && r.actor != e.Report.Actor {
		d.emit(Ignored{d.state, r.spec.Name, r.phase, reported}) // from an earlier replica of the name
		return
	}
	r.report = &e.Report
	if r.actor == (Ref{}) {
		r.actor = e.Report.Actor
		d.emit(Watch{r.actor})
	}
	switch e.Report.State {
	case ReplicaLoading:
		r.migrating = "" // an earlier incarnation got the command
	case ReplicaServing, ReplicaSuspending, ReplicaStandby:
		d.onUp(r, now)
	case ReplicaDraining:
		if r.drainCause == "" {
			r.drainCause, r.surplus = "drained by an earlier term of its deployment", true
			d.markDrop(r)
		}
		d.fire(r, reportDraining, none, now)
	case ReplicaFailed:
		if e.Report.Found != "" {
			if d.foundStaleLease(r, now) {
				break
			}
			e.Failure = d.weightsDiffer(r, e.Report.Found)
		}
		d.onFailed(r, e.Failure, now)
	}
	d.observePreemption(r, now)
	if e.Report.Fault != (Fault{}) {
		d.onFaulty(r, e.Report.Fault, now)
	}
	d.checkRevision(r, now)
	d.reconcile(now)
}

// onFaulty replaces a replica whose step has hung for long, or whose answers are wrong.
func (d *Deployment) onFaulty(r *replica, f Fault, now time.Time) {
	r.drop = r.drop || f.Corrupt
	if d.fire(r, failed, faulty, now) {
		d.failAssignment(r.spec.Name, r.spec.At, f.Detail, now)
		d.emit(Faulty{r.spec.Name, f.Detail})
	}
}

// onUp handles the report of a replica that has started.
func (d *Deployment) onUp(r *replica, now time.Time) {
	if d.fire(r, reportUp, none, now) {
		r.served = true
		delete(d.attempts, r.spec.Name)
		if len(d.attempts) == 0 { // else it remains why others are missing
			d.failure = nil
		}
		delete(d.lastPlacement, r.spec.Name)
		if r.last().State == ReplicaServing {
			d.wake.parked = false
			d.emit(Serving{r.spec.Name, Location{r.spec.At.Node, r.report.GPU}})
		}
	}
	d.setLevel(r)
}

// onFailed handles a replica that failed to load, or whose device was lost after it served.
func (d *Deployment) onFailed(r *replica, failure *Failure, now time.Time) {
	if failure == nil {
		failure = &Failure{Reason: LoadFailed, Detail: "replica " + r.spec.Name + " failed to load"}
	}
	holds := none
	if failure.Reason == Quarantined {
		holds = deviceLost
	}
	if !d.fire(r, failed, holds, now) {
		return
	}
	if failure.Reason == FilesDiffer {
		d.emit(WeightsDiffer{failure.Detail})
	} else {
		d.sized = false // the files may have changed since the inspection
	}
	d.failAssignment(r.spec.Name, r.spec.At, failure.Detail, now)
	d.fail(failure.on(r.spec.At.Node))
}

// stopRequest returns the id of the command that stops the replica, and of its repetitions. It differs from
// those of earlier replicas of the same name, whose answers may be late.
func (r *replica) stopRequest() string { return fmt.Sprintf("%s#%d", r.spec.Name, r.since.UnixNano()) }

func (d *Deployment) onFreed(e Freed, now time.Time) {
	if node, name, ok := strings.Cut(e.Request, "/"); ok {
		delete(d.orphans, orphan{node, name})
		d.preemptionFreed(name, now)
		d.reconcile(now) // a replica of this name may be assigned there
		return
	}
	name, _, _ := strings.Cut(e.Request, "#")
	r := d.find(name, freed)
	if r != nil && r.phase == Stopping && e.Request != r.stopRequest() {
		d.emit(Ignored{d.state, name, r.phase, freed}) // an earlier replica of this name was stopped again
		return
	}
	if r != nil && d.fire(r, freed, none, now) {
		d.emit(Stopped{name})
		d.preemptionFreed(name, now)
		d.reconcile(now)
	}
}

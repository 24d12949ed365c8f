package deployment

import (
	"time"

	"troupe/core/backend"
	"troupe/core/hbm"
	"troupe/core/preempt"
)

// Event is something that happened to the deployment.
type Event interface{ isEvent() }

type (
	// Tick arrives every second. It repeats the commands that were not answered.
	Tick struct{}

	// Apply is the stored spec. Need is the GPU memory of a replica according to the last
	// Inspected; it is unused before the first.
	Apply struct {
		Spec   Spec
		Stored uint64 // revision of the stored spec
		Need   hbm.Need
	}

	// Remove reports that the deployment is deleted.
	Remove struct {
		Drop bool // its replicas free their weights
	}

	// Members lists the live members of the cluster, and those that departed recently.
	Members struct {
		Members  []Member
		Departed []Departed
	}

	// ReplicaList answers ListReplicas.
	ReplicaList struct {
		Node     string
		Replicas []Running
	}

	// StaleTerm reports that a command was refused because a later term has begun.
	StaleTerm struct{ Detail string }

	// Inspected answers Inspect with the GPU memory that a replica needs, or with a fault.
	Inspected struct {
		Engine backend.Kind
		Path   string
		Need   hbm.Need
		Fault  string // empty: none
	}

	// GPUReport answers AskGPU.
	GPUReport struct {
		At          Location
		Quarantined bool
	}

	// Accepted reports that a node has started a replica.
	Accepted struct {
		Replica string
		Actor   Ref
	}

	// Reported is a replica's report. Failure is set if the state is ReplicaFailed and the replica
	// knows the reason.
	Reported struct {
		Report  Report
		Failure *Failure
	}

	// Drained reports that a replica has no sequences left, and how they left.
	Drained struct {
		Replica    string
		Departures preempt.Counts
	}

	// Migrated reports that a MigrateSequences has ended.
	Migrated struct{ Replica, Request string }

	// Saved answers SaveSequences.
	Saved struct {
		Replica string
		Blocks  int    // copied to the tiers
		Detail  string // why others were not; empty if all were
	}

	// PreemptTimer arrives when PreemptAfter is over.
	PreemptTimer struct{ Replica string }

	// Freed answers StopReplica: the memory is free.
	Freed struct{ Request string }

	// Wanted reports how many requests wait at the router of a node until a replica serves, and how many
	// of them may wake the deployment. It is repeated each second.
	Wanted struct {
		Node           string
		Waiting, Wakes int
		Oldest         time.Duration // age of the oldest request that may wake the deployment
		Stored         uint64        // revision of the stored spec that the router knows
	}

	// PlacementRefused reports why the planner has assigned fewer replicas than are wanted. It is repeated
	// as long as replicas are missing.
	PlacementRefused struct {
		Stored  uint64 // revision of the stored spec that was planned
		Missing int    // replicas
		Failure Failure
		Later   bool // there may be room soon
	}

	// LevelStored reports that a StoreLevel has ended, with or without success.
	LevelStored struct{}

	// Recorded reports that a Record has ended, with or without success.
	Recorded struct{}

	// Exited reports that a replica has stopped by itself, or crashed too often.
	Exited struct {
		Actor Ref
		Why   string
	}

	// Unreachable reports that the connection to a replica's node broke.
	Unreachable struct {
		Actor Ref
		Why   string
	}
)

func (Tick) isEvent()             {}
func (Apply) isEvent()            {}
func (Remove) isEvent()           {}
func (Members) isEvent()          {}
func (ReplicaList) isEvent()      {}
func (StaleTerm) isEvent()        {}
func (Inspected) isEvent()        {}
func (GPUReport) isEvent()        {}
func (Accepted) isEvent()         {}
func (Reported) isEvent()         {}
func (Drained) isEvent()          {}
func (Migrated) isEvent()         {}
func (Saved) isEvent()            {}
func (PreemptTimer) isEvent()     {}
func (Freed) isEvent()            {}
func (Wanted) isEvent()           {}
func (PlacementRefused) isEvent() {}
func (LevelStored) isEvent()      {}
func (Recorded) isEvent()         {}
func (Exited) isEvent()           {}
func (Unreachable) isEvent()      {}

// Handle handles an event and returns its effects, to be carried out in order.
func (d *Deployment) Handle(e Event, now time.Time) []Effect {
	if d.state == Fenced {
		return []Effect{Ignored{State: Fenced}}
	}
	d.now = now
	d.handle(e, now)
	effects := d.effects
	d.effects = nil
	return effects
}

func (d *Deployment) handle(e Event, now time.Time) {
	switch e := e.(type) {
	case Tick:
		d.onTick(now)
	case Apply:
		d.onApply(e, now)
	case Remove:
		d.onRemove(e, now)
	case Members:
		d.onMembers(e, now)
	case ReplicaList:
		d.onReplicaList(e, now)
	case StaleTerm:
		d.onStaleTerm(e)
	case Inspected:
		d.onInspected(e, now)
	case GPUReport:
		d.onGPUReport(e, now)
	case Accepted:
		d.onAccepted(e, now)
	case Reported:
		d.onReported(e, now)
	case Drained:
		d.onDrained(e, now)
	case Migrated:
		d.onMigrated(e, now)
	case Saved:
		d.onSaved(e, now)
	case PreemptTimer:
		d.onPreemptTimer(e, now)
	case Freed:
		d.onFreed(e, now)
	case Wanted:
		d.onWanted(e, now)
	case PlacementRefused:
		d.onPlacementRefused(e, now)
	case LevelStored:
		d.fireWake(levelStored, now)
	case Recorded:
		d.recording = false
	case Exited:
		d.onExited(e, now)
	case Unreachable:
		d.onUnreachable(e, now)
	}
}

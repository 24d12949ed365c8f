package deployment

import (
	"time"
	"troupe/core/backend"

	"troupe/core/preempt"
	"troupe/core/residency"
)

// Effect is an action for the caller to carry out.
type Effect interface{ isEffect() }

// Commands. Those that are not answered are repeated by the next Tick.
type (
	// AskSpec requests the stored spec; Apply or Remove answers.
	AskSpec struct{}

	// ListReplicas requests a node's replicas of the deployment; ReplicaList answers.
	ListReplicas struct{ Node string }

	// AskGPU requests the status of a GPU; GPUReport answers.
	AskGPU struct{ At Location }

	// Inspect requests the GPU memory that a replica needs; Inspected answers.
	Inspect struct {
		Engine backend.Kind
		Path   string
	}

	// StartReplica starts a replica; Accepted answers.
	StartReplica struct{ Spec ReplicaSpec }

	// AskReplica requests a replica's status; Reported answers.
	AskReplica struct {
		Replica string
		Actor   Ref
	}

	// ConfirmRevision lets a replica serve the files that it found.
	ConfirmRevision struct {
		Actor  Ref
		Digest string
	}

	// Record stores the digests that the first replica found; Recorded answers.
	Record struct {
		Deploy            uint64
		Weights, Revision string
	}

	// StoreLevel stores the level of all replicas, and no levels of single ones, if the stored spec is still
	// the last one applied; LevelStored answers.
	StoreLevel struct {
		Level Level
		Wakes bool // replicas are to serve again
		Why   string
	}

	// DrainReplica drains a replica; Drained answers when it is empty.
	DrainReplica struct{ Replica, Node string }

	// SetLevel tells a replica its wanted level: standby or active. Its report shows it.
	SetLevel struct {
		Replica, Node string
		Standby       bool
	}

	// MigrateSequences migrates the sequences of a replica that does not keep them to another one; Migrated
	// answers.
	MigrateSequences struct {
		Request     string
		Replica     string
		Actor       Ref
		Target      string
		TargetActor Ref
		Cause       string
	}

	// SaveSequences saves and requeues the sequences of a preempted replica; Saved answers.
	SaveSequences struct{ Replica, Node string }

	// PreemptAfter asks for a PreemptTimer after the given time.
	PreemptAfter struct {
		Replica string
		After   time.Duration
	}

	// StopReplica stops a replica and frees its memory; Freed answers with the request's name.
	StopReplica struct {
		Request, Replica string
		At               Location
		Weights          residency.Fate
	}

	// Watch watches a replica; Exited or Unreachable reports its end.
	Watch struct{ Actor Ref }
)

// Notices, for logs, events and routers.
type (
	// Announce reports that the status may have changed.
	Announce struct{}

	// Gone reports that nothing is left of the deleted deployment.
	Gone struct{}

	// Placed reports on which GPU a replica starts.
	Placed struct {
		Replica string
		At      Location
		Why     string
	}

	// Retiring reports that a replica drains.
	Retiring struct{ Replica, Why string }

	// Preempting reports a new phase of the preemption of a replica.
	Preempting struct {
		Replica  string
		Phase    preempt.Phase
		Progress preempt.Progress
	}

	// Serving reports that a replica serves for the first time.
	Serving struct {
		Replica string
		At      Location
	}

	// Stopped reports that a replica's memory is free.
	Stopped struct{ Replica string }

	// Lost reports that a replica was lost with its node.
	Lost struct{ Replica, Node string }

	// Terminated reports that a replica ended by itself, or that its node is unreachable.
	Terminated struct{ Replica, Why string }

	// Faulty reports that a replica is replaced because it hangs or its answers are wrong.
	Faulty struct{ Replica, Why string }

	// Failed reports a new failure of the deployment.
	Failed struct{ Failure Failure }

	// WeightsDiffer reports that a replica found other files than those of the revision.
	WeightsDiffer struct{ Detail string }

	// Ready reports that the requested number of replicas serves.
	Ready struct{ Replicas int }

	// FencedOff reports that a later term has begun.
	FencedOff struct{ Detail string }

	// Ignored reports an event without a row in the table of the replica or of the deployment. The
	// event changed nothing.
	Ignored struct {
		State   State
		Replica string // empty for an event of the deployment itself
		Phase   Phase
		Trigger Trigger
	}
)

func (AskSpec) isEffect()          {}
func (ListReplicas) isEffect()     {}
func (AskGPU) isEffect()           {}
func (Inspect) isEffect()          {}
func (StartReplica) isEffect()     {}
func (AskReplica) isEffect()       {}
func (ConfirmRevision) isEffect()  {}
func (Record) isEffect()           {}
func (StoreLevel) isEffect()       {}
func (DrainReplica) isEffect()     {}
func (SetLevel) isEffect()         {}
func (MigrateSequences) isEffect() {}
func (StopReplica) isEffect()      {}
func (SaveSequences) isEffect()    {}
func (PreemptAfter) isEffect()     {}
func (Preempting) isEffect()       {}
func (Watch) isEffect()            {}
func (Announce) isEffect()         {}
func (Gone) isEffect()             {}
func (Placed) isEffect()           {}
func (Retiring) isEffect()         {}
func (Serving) isEffect()          {}
func (Stopped) isEffect()          {}
func (Lost) isEffect()             {}
func (Terminated) isEffect()       {}
func (Faulty) isEffect()           {}
func (Failed) isEffect()           {}
func (WeightsDiffer) isEffect()    {}
func (Ready) isEffect()            {}
func (FencedOff) isEffect()        {}
func (Ignored) isEffect()          {}

func (d *Deployment) emit(e Effect) { d.effects = append(d.effects, e) }

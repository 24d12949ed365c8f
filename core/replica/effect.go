package replica

import (
	"fmt"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/turns"
	"troupe/core/utilization"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Life cycle.
type (
	// StateChanged reports a change of the state that other actors see.
	StateChanged struct{ State State }
	// Publish sends the status to the deployment.
	Publish struct{}
	// Announce sends the status and the changes of the blocks to the router.
	Announce struct{ kv.Announcement }
	// SetTimer starts a timer. When it expires, the caller reports Fired.
	SetTimer struct {
		Timer Timer
		After time.Duration
	}
	LoadModel   struct{}
	AdoptBlocks struct{}
	// KeepModel keeps the model of this event. Fresh means that the model was loaded rather than
	// adopted.
	KeepModel struct{ Fresh bool }
	// KeepFailure keeps the refusal of this event for later reports.
	KeepFailure struct{}
	// KeepRevision keeps a confirmed revision across restarts of the actor.
	KeepRevision struct{ Digest string }
	// KeepLevel keeps the wanted level across restarts of the actor.
	KeepLevel struct{ Standby bool }
	// Open opens the copiers of blocks and starts the engine.
	Open struct{}
	// Close ends all copies and migrations. After Close, nothing writes to the blocks.
	Close       struct{}
	CheckFolder struct{ Revision string }
	// FolderChanged reports that the condition of the model folder has changed.
	FolderChanged struct{ Folder }
	// Drained answers the drain command.
	Drained struct{ Departures Departures }
	// SaveBlocks copies all blocks to the tiers. The caller reports BlocksSaved.
	SaveBlocks struct{}
	// SequencesSaved answers the save command: all sessions were interrupted.
	SequencesSaved struct {
		Blocks int    // copied to the tiers
		Fault  string // why others were not; empty if all were
	}
)

// Sequences.
type (
	// Accept answers the submission with the number of sequences ahead of it in the queue.
	Accept struct {
		ID    string
		Ahead int
	}
	Refuse struct {
		ID string
		Refusal
	}
	// Attach records the session and the spec of the submission. The session already has the first
	// Base tokens of the output.
	Attach struct {
		ID   string
		Base int
	}
	// Reattach records the new session of a sequence that is already here, and sends it the tokens
	// from First on that it lacks, if any.
	Reattach struct {
		ID     string
		First  int
		Tokens []uint32
		Cached int
	}
	// Claimed reports that the session of a sequence has contacted the replica.
	Claimed struct{ ID string }
	// Finish reports to the session that its output was already complete when it submitted the
	// sequence.
	Finish struct {
		ID    string
		First int
	}
	// Queued reports a sequence that waits, for the first time or again. Its blocks may be looked
	// up, and with Early at once, since a step is in flight.
	Queued struct {
		ID    string
		Early bool
	}
	// Interrupt reports to a session that its sequence is no longer here.
	Interrupt struct {
		ID string
		Refusal
	}
	// Drop forgets a sequence.
	Drop struct{ ID, Why string }
	// Preempted reports a running sequence that was returned to the queue.
	Preempted struct{ ID, Why string }
	// Rejected, Poisoned and Nonfinite report why a sequence is about to be dropped.
	Rejected struct{ ID, Adapter, Why string }
	Poisoned struct{ ID string }
	// Nonfinite also names the adapter, if the sequence has one.
	Nonfinite struct{ ID, Adapter string }
)

// Steps.
type (
	// BlocksChanged reports the blocks whose content is about to change, before a step overwrites
	// them.
	BlocksChanged struct {
		Evicted   []int32
		Committed []kv.Committed
	}
	RunStep struct {
		Step    uint64
		Entries []batch.Entry
	}
	// AskTurn asks the device for a turn.
	AskTurn struct{ turns.Request }
	// EndTurn ends a turn, and asks for another one if Next is set. Turn 0 reports that the replica
	// holds no turn.
	EndTurn struct {
		Turn uint64
		Used time.Duration
		Next *turns.Request
	}
	// RepeatStep sends the engine the last step again.
	RepeatStep struct{}
	// PrefillMeasured reports the duration of a step with a prefill.
	PrefillMeasured struct {
		Tokens int
		Took   time.Duration
	}
	// RestoreRead reports that the first step of a sequence is done, so all its restored blocks
	// have arrived.
	RestoreRead struct{ ID string }
	// StepAborted reports a step that is planned again, without the sequence whose gate failed.
	StepAborted struct{ ID, Why string }
	// Emit sends tokens to their sessions. Entries are the entries of the step.
	Emit struct {
		Entries []batch.Entry
		Tokens  []batch.Emission
	}
	// StepEnded runs the work that waited for the end of the step, and then advances.
	StepEnded struct{}
	// AnswerOffers answers the migration offers that waited for an adapter.
	AnswerOffers struct{}
	// Advance starts the next step; see Machine.Advance.
	Advance struct{}
)

// Faults.
type (
	// FaultBegan and FaultEnded report that the replica leaves service and returns to it.
	FaultBegan struct{ Fault }
	FaultEnded struct {
		Detail string
		After  time.Duration
	}
	// Suspect reports to the device that it may be broken.
	Suspect struct{ Detail string }
	// KeepCanary keeps the answer to the first canary across restarts of the actor.
	KeepCanary struct{ Canary }

	// Verified reports that the weights gave all recorded tokens after standby, and how long that took.
	Verified struct{ Took time.Duration }
)

// Engine describes the present incarnation of the engine.
type Engine struct {
	Since time.Time // when it was ready
	Capture
}

// Capture is what the engine captured when it started.
type Capture struct {
	Graphs int
	Took   time.Duration
}

// KV memory.
type (
	// ReportKV reports the number of blocks that the replica has, needs at least, and could use in
	// addition.
	ReportKV struct {
		Blocks, Least, Wanted int
		Standby               bool      // the device may take back all blocks beyond Least
		StandbyWanted         bool      // the wanted level is standby
		LastUsed              time.Time // zero: never
		Use                   utilization.Counters
		Serving               bool
		Engine                Engine        // zero before it is ready
		Verify                time.Duration // of the check after standby; 0: none has passed
	}
	// KVShrunk answers a shrink command of the device.
	KVShrunk struct {
		Attempt uint64
		Refusal *Refusal // nil: the memory is unused
	}
	// Resized reports the new number of blocks.
	Resized struct{ From, To int }
	// SyncKVPins repeats the pinned prefixes to the tiers.
	SyncKVPins struct{}
)

// Adapters.
type (
	LeasePages struct{}
	StartPool  struct{}
	// AdoptPins reports to a newly started pool which pins are in effect.
	AdoptPins struct{ Pins []Pin }
	SendPin   struct{ Pin }
	SendUnpin struct{ Name string }
	// AdapterRequested reports a request to the pool, which counts it in the adapter's popularity.
	AdapterRequested struct{ Adapter string }
	// PrefetchAdapters sends the pool the adapters of the planner's last command, as far as they fit the
	// weights.
	PrefetchAdapters struct{ Keys []string }
	ForgetAdapter    struct{}
	// PinFailed reports that the operator's pin of an adapter is not in effect.
	PinFailed struct{ Adapter, Why string }
)

// Pin names one pin of an adapter.
type Pin struct{ Name, Adapter string }

// Ignored reports an event that changed nothing.
type Ignored struct {
	State fmt.Stringer // state of the table that ignored the event
	Event Event
	Why   string
}

func (StateChanged) isEffect()     {}
func (Publish) isEffect()          {}
func (Announce) isEffect()         {}
func (SetTimer) isEffect()         {}
func (LoadModel) isEffect()        {}
func (AdoptBlocks) isEffect()      {}
func (KeepModel) isEffect()        {}
func (KeepFailure) isEffect()      {}
func (KeepRevision) isEffect()     {}
func (KeepLevel) isEffect()        {}
func (Open) isEffect()             {}
func (Close) isEffect()            {}
func (CheckFolder) isEffect()      {}
func (FolderChanged) isEffect()    {}
func (Drained) isEffect()          {}
func (SaveBlocks) isEffect()       {}
func (SequencesSaved) isEffect()   {}
func (Accept) isEffect()           {}
func (Refuse) isEffect()           {}
func (Attach) isEffect()           {}
func (Reattach) isEffect()         {}
func (Claimed) isEffect()          {}
func (Finish) isEffect()           {}
func (Queued) isEffect()           {}
func (Interrupt) isEffect()        {}
func (Drop) isEffect()             {}
func (Preempted) isEffect()        {}
func (Rejected) isEffect()         {}
func (Poisoned) isEffect()         {}
func (Nonfinite) isEffect()        {}
func (BlocksChanged) isEffect()    {}
func (RunStep) isEffect()          {}
func (AskTurn) isEffect()          {}
func (EndTurn) isEffect()          {}
func (RepeatStep) isEffect()       {}
func (PrefillMeasured) isEffect()  {}
func (RestoreRead) isEffect()      {}
func (StepAborted) isEffect()      {}
func (Emit) isEffect()             {}
func (StepEnded) isEffect()        {}
func (AnswerOffers) isEffect()     {}
func (Advance) isEffect()          {}
func (FaultBegan) isEffect()       {}
func (FaultEnded) isEffect()       {}
func (Suspect) isEffect()          {}
func (KeepCanary) isEffect()       {}
func (Verified) isEffect()         {}
func (ReportKV) isEffect()         {}
func (KVShrunk) isEffect()         {}
func (Resized) isEffect()          {}
func (SyncKVPins) isEffect()       {}
func (LeasePages) isEffect()       {}
func (StartPool) isEffect()        {}
func (AdoptPins) isEffect()        {}
func (SendPin) isEffect()          {}
func (SendUnpin) isEffect()        {}
func (AdapterRequested) isEffect() {}
func (PrefetchAdapters) isEffect() {}
func (ForgetAdapter) isEffect()    {}
func (PinFailed) isEffect()        {}
func (Ignored) isEffect()          {}

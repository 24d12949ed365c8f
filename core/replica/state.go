package replica

// State is the state of a replica's life cycle.
type State uint8

// States.
const (
	Created    State = iota // before Start
	Loading                 // the device loads the weights
	Adopting                // the blocks that an earlier incarnation left are being looked up
	Starting                // the engine is starting
	Confirming              // the engine is ready, but the deployment has not confirmed the revision
	Serving                 // sequences are accepted
	Suspending              // no sequence is accepted; the present ones finish or migrate, and then it is Standby
	Standby                 // no sequence is accepted or present; the weights and a minimum of KV memory stay
	Draining                // no sequence is accepted; the present ones finish
	Saving                  // no step is planned; the KV blocks are copied to the tiers
	Saved                   // the sequences were interrupted, to be resumed from the tiers
	Failed                  // the weights cannot be loaded
	Stopping                // the actor stops or restarts
)

func (s State) String() string {
	return [...]string{"created", "loading", "adopting", "starting", "confirming", "serving", "suspending",
		"standby", "draining", "saving", "saved", "failed", "stopping"}[s]
}

// StepState is the state of the replica's steps.
type StepState uint8

// Step states.
const (
	Halted    StepState = iota // the engine is not ready, or the replica stops
	Idle                       // no step is in flight
	Running                    // a step is in flight
	Repeating                  // a step that crashed once runs again
	Isolating                  // a step crashed twice; its entries run alone, and none of them is in flight
	Alone                      // an isolated entry is in flight
)

func (s StepState) String() string {
	return [...]string{"halted", "idle", "running", "repeating", "isolating", "alone"}[s]
}

// MemoryState is the state of the replica's KV memory.
type MemoryState uint8

// Memory states.
const (
	Unmapped  MemoryState = iota // the blocks are not adopted, or the replica stops
	Whole                        // all blocks may be used
	Shrinking                    // blocks that the device takes back are still in use
	Shrunk                       // these blocks are unused; no step runs until the memory has its new size
)

func (s MemoryState) String() string {
	return [...]string{"unmapped", "whole", "shrinking", "shrunk"}[s]
}

// PoolState is the state of the replica's adapter pool.
type PoolState uint8

// Pool states.
const (
	NoAdapters   PoolState = iota // the replica takes no adapters, or it stops
	Unleased                      // there are no pages for adapters
	Leasing                       // pages were requested
	PoolStarting                  // the pool starts or restarts
	PoolReady                     // it accepts pins
)

func (s PoolState) String() string {
	return [...]string{"no adapters", "unleased", "leasing", "starting", "ready"}[s]
}

// TurnState is the state of the replica's turn on its device.
type TurnState uint8

// Turn states.
const (
	NoTurn       TurnState = iota // the replica has none, and has not asked for one
	AwaitingTurn                  // it has asked for a turn
	OneStep                       // it may run one step
	OpenTurn                      // it may run steps until the turn is recalled
	RecalledTurn                  // its turn ends with the step in flight
)

func (s TurnState) String() string {
	return [...]string{"none", "awaiting", "one step", "open", "recalled"}[s]
}

// Event is a kind of event. Each belongs to one or more of the tables.
type Event uint8

// Events. Those marked with an arrow are raised by the tables themselves.
const (
	evStart         Event = iota // the actor started
	evRetry                      // the timer of the startup fired
	evLoaded                     // the device has the weights
	evLoadRefused                // the device refused the weights
	evAdopted                    // the blocks were looked up
	evEngineReady                // the engine started, or restarted after a crash
	evConfirmed                  // the deployment confirmed a revision
	evDrain                      // the deployment or the operator drains the replica
	evStandby                    // the deployment wants the replica at level standby
	evActivate                   // the deployment wants the replica at level active
	evSave                       // the deployment takes the sequences away
	evBlocksSaved                // the copies to the tiers have ended
	evStop                       // the actor stops or restarts
	evSubmit                     // a session submits a sequence
	evCheckFolder                // the timer of the folder check fired
	evFolderChecked              // the folder was checked
	evEmpty                      // → no sequence is left

	evEngineUp    // → the engine started or restarted
	evAdvance     // something changed that the next step may use
	evPlan        // the next step may be planned
	evPlanned     // → the plan has entries
	evNothing     // → the plan is empty
	evStepDone    // the engine finished a step
	evStepAborted // a gate failed in a step
	evPicked      // → an isolated entry is to run
	evExhausted   // → no isolated entry is left

	evGranted  // the device has granted a turn
	evRecalled // the device recalls an open turn
	evReset    // the actor of the device has restarted
	evNeedTurn // → there is work and no turn
	evStepped  // → a step has ended
	evUnused   // → there is nothing to run in the turn, or no step may run
	evRepeat   // → a request may have been lost

	evReportKV // the timer of the report to the device fired
	evShrink   // the device takes KV memory back
	evRelease  // no step is in flight, so blocks can be released
	evGrow     // the KV memory has its new size
	evUnread   // → the blocks that the device takes back are unused

	evWanted       // a sequence or the operator wants an adapter
	evRetryLease   // the timer of the lease fired
	evLeased       // there are pages for adapters
	evLeaseRefused // the device refused pages
	evPoolReady    // the pool started or restarted

	evMapped // → the blocks are adopted; handled by memory, adapters and faults
	evHalt   // → the actor stops; handled by steps, memory, adapters and faults

	evWatch       // the timer of the watch fired
	evStepOver    // → a step has ended
	evCanaryWrong // → a canary gave a wrong answer
)

func (e Event) String() string {
	return [...]string{"start", "retry", "loaded", "load-refused", "adopted", "engine-ready", "confirmed", "drain",
		"standby", "activate", "save", "blocks-saved", "stop", "submit", "check-folder", "folder-checked", "empty",
		"engine-up", "advance", "plan", "planned", "nothing", "step-done", "step-aborted", "picked", "exhausted",
		"granted", "recalled", "reset", "need-turn", "stepped", "unused", "repeat", "report-kv", "shrink", "release",
		"grow", "unread", "wanted", "retry-lease", "leased", "lease-refused", "pool-ready", "mapped", "halt", "watch",
		"step-over", "canary-wrong"}[e]
}

// Timer names a timer. It fires once after each SetTimer.
type Timer uint8

// Timers.
const (
	RetryTimer    Timer = iota // repeats an unanswered request of the startup
	AnnounceTimer              // sends the next announcement to the router
	ReportTimer                // sends the next report to the deployment
	FolderTimer                // starts the next check of the model folder
	KVTimer                    // sends the next report to the device
	LeaseTimer                 // repeats an unanswered lease of pages
	AdapterTimer               // checks for sequences that wait for adapters
	WatchTimer                 // starts the next check of the step in flight
)

func (t Timer) String() string {
	return [...]string{"retry", "announce", "report", "folder", "kv", "lease", "adapter", "watch"}[t]
}

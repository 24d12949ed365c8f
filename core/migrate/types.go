package migrate

import (
	"time"

	"troupe/core/batch"
)

// Actor is the address of an actor. The zero value is an unknown sender.
type Actor struct{ Address, ID string }

// Key identifies one attempt to migrate a sequence.
type Key struct {
	ID      string // request id of the sequence
	Attempt uint64
}

// Plane is the state of the data plane that moves KV blocks.
type Plane uint8

// States of the data plane.
const (
	NotOpen  Plane = iota // the replica has no KV memory yet
	NoPlane               // the node has no data plane, so sequences do not migrate
	PlaneUp               // blocks can be sent and received
	PlaneOff              // the replica is stopping
)

func (p Plane) String() string { return [...]string{"not open", "none", "up", "off"}[p] }

// Mode tells whether a replica accepts sequences.
type Mode uint8

// Modes.
const (
	NotServing Mode = iota
	Serving
	Draining
)

func (m Mode) String() string { return [...]string{"not serving", "serving", "draining"}[m] }

// Sequence is the state of a sequence at the source.
type Sequence struct {
	ID       string
	Here     bool // the sequence is on this replica; if not, the other fields are zero
	Queued   bool // the sequence waits and has no blocks
	InFlight bool // a step computes the sequence
	batch.Progress
}

// Shape is what two replicas must share in order to exchange blocks.
type Shape struct {
	Model       string
	Layout      string // layout of the bytes of a block
	BlockTokens int
	BlockBytes  int
}

// Report is the outcome for one sequence of a command.
type Report struct {
	ID      string
	Moved   bool
	Detail  string // why the sequence stayed
	Bytes   uint64 // bytes sent over the data plane
	Blocks  int
	Reused  int           // blocks that the target already had
	Pause   time.Duration // from the source's last step until the target took the sequence over
	Elapsed time.Duration // since the offer
}

// Reason is the reason for a refusal.
type Reason uint8

// Reasons.
const (
	NotReady Reason = iota
	Busy            // the replica is draining
	Unsupported
	StaleTerm
	Invalid
	QueueFull
	NotFound
	AlreadyExists
	TooLong
	Conflict
	WeightsDiffer
	NoMemory
)

func (r Reason) String() string {
	return [...]string{"not-ready", "draining", "unsupported", "stale-term", "invalid", "queue-full", "not-found",
		"already-exists", "too-long", "conflict", "weights-differ", "no-memory"}[r]
}

// Refusal says why something was refused and after what time to try again. RetryAfter is 0 if no
// delay is known.
type Refusal struct {
	Reason     Reason
	Detail     string
	RetryAfter time.Duration
}

const (
	retrySoon      = 20 * time.Millisecond // RetryAfter of refusals that are expected to end soon
	retryQueueFull = time.Second           // RetryAfter of refusals because of a limit
)

// event is one event. Only the fields of its kind are set.
type event struct {
	kind Event
	now  time.Time
	from Actor // sender

	sequence    Sequence // state of the sequence at the source
	missing     []uint32 // full blocks that the target lacks
	capacity    int      // number of blocks that the transfer has room for
	detail      string   // of a refusal or an error
	incarnation uint64   // of the target
	node        string   // of the target

	own      Own
	between  bool // no step is in flight
	here     bool // the sequence is on this replica
	loading  bool // the adapter of an offer is not on the device yet
	refusal  Refusal
	tokens   int // tokens computed, of a sequence that is to be resumed
	resident int // reserved blocks that already have the right content
	complete bool
	heard    time.Time // when the last block arrived
}

// Event is a kind of event. Each is a method of Source or Target.
type Event uint8

// Events of both machines.
const (
	Started       Event = iota // the sequence may start to migrate
	Offered                    // the target accepted the offer
	OfferRefused               // the target refused the offer
	Sent                       // the blocks were sent
	SendFailed                 // the blocks were not sent
	StepEnded                  // no step is in flight
	Resumed                    // the target runs the sequence
	ResumeFailed               // the target does not run the sequence
	Timer                      // the timer fired
	Lost                       // the other replica stopped or cannot be reached
	Cancelled                  // the sequence ended, or lost its blocks
	PlaneLost                  // a crash of the data plane ended its transfers
	Stopped                    // the replica stops or restarts
	OfferArrived               // the source offers a sequence
	Reserved                   // blocks are reserved
	NotReserved                // blocks are not reserved
	Opened                     // the transfer can receive blocks
	OpenFailed                 // the transfer is not open
	ResumeArrived              // the source sent all blocks
	Closed                     // the transfer is closed; no write to its blocks is in progress
	Adopted                    // the sequence runs here
	NotAdopted                 // the sequence does not run here
	Abandoned                  // the source keeps the sequence
	Claim                      // the session has contacted this replica
	Heard                      // the time at which the last block arrived is known
)

func (e Event) String() string {
	return [...]string{"started", "offered", "offer-refused", "sent", "send-failed", "step-ended", "resumed",
		"resume-failed", "timer", "lost", "cancelled", "plane-lost", "stopped", "offer", "reserved", "not-reserved",
		"opened", "open-failed", "resume", "closed", "adopted", "not-adopted", "abandoned", "claim", "heard"}[e]
}

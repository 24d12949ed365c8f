package offload

import (
	"time"

	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Select asks which blocks the pool selects. The caller reports Selected before any other event.
type Select struct {
	Idle      bool    // select blocks that had no readers for IdleSteps steps; otherwise blocks above the watermark
	IdleSteps uint64  // with Idle
	Watermark float64 // without Idle: share of the pool
	Burst     int     // maximum number of blocks
}

// Copy copies blocks to the first tier below HBM. The caller reports Copied.
type Copy struct {
	Number uint64 // of the copy; unique within a machine
	Blocks []kv.Committed
}

// Finish reports to the pool that the copies of these blocks have ended, in this order.
type Finish struct{ Blocks []Finished }

// Finished is a block whose copy has ended.
type Finished struct {
	Block  int32
	Stored bool // the tier has the block now
}

// RetryAfter asks the caller to report Retry after a delay.
type RetryAfter struct{ After time.Duration }

// ReportSteps reports to the tiers the number of steps run since the last report.
type ReportSteps struct{ Steps int }

// Advance lets the replica start whatever can run now.
type Advance struct{}

// Answer answers an OffloadBlocks command.
type Answer struct {
	To     Actor
	ID     string
	Blocks int // number of blocks stored
	Took   time.Duration
	Detail string // why some blocks were not stored; empty if all were
}

// Refuse refuses a command.
type Refuse struct {
	To         Actor
	ID         string
	Reason     Reason
	Detail     string
	RetryAfter time.Duration // 0: do not retry
}

// Prefetch restores a prefix that no sequence is waiting for. For a RestoreBlocks command the
// prefix is that of the command in this event, and the restore answers the command.
type Prefetch struct {
	To     Actor // requester of the command; zero: there is none
	ID     string
	Hashes []kv.Hash // nil: the hashes of the command
}

// Flush drops the blocks in HBM that have neither readers nor pins, and answers the command.
type Flush struct {
	To Actor
	ID string
}

// LoadPins asks for the pinned prefixes. The caller reports PinsLoaded before any other event.
type LoadPins struct{}

// SetPins replaces the pins of the pool.
type SetPins struct{ Hashes map[kv.Hash]bool }

// SendPins sends the pinned blocks to the tiers below HBM.
type SendPins struct{ Hashes []kv.Hash }

// Ignored reports an event that changed nothing.
type Ignored struct {
	State State
	Event Event
}

// Reason is the reason why a command is refused.
type Reason uint8

// Reasons.
const (
	NotReady Reason = iota
	Unsupported
)

// String returns the name of the reason.
func (r Reason) String() string { return [...]string{"not ready", "unsupported"}[r] }

func (Select) isEffect()      {}
func (Copy) isEffect()        {}
func (Finish) isEffect()      {}
func (RetryAfter) isEffect()  {}
func (ReportSteps) isEffect() {}
func (Advance) isEffect()     {}
func (Answer) isEffect()      {}
func (Refuse) isEffect()      {}
func (Prefetch) isEffect()    {}
func (Flush) isEffect()       {}
func (LoadPins) isEffect()    {}
func (SetPins) isEffect()     {}
func (SendPins) isEffect()    {}
func (Ignored) isEffect()     {}

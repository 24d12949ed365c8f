package tier

import (
	"time"

	"troupe/core/export"
	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Answers.
type (
	// AnswerReserve answers a reservation. Blocks in neither list got no slot.
	AnswerReserve struct {
		To    Actor
		ID    string
		Slots []Slot    // slots to write
		Held  []kv.Hash // blocks that the tier already has
	}

	// RefuseReserve refuses a reservation whose blocks are too large.
	RefuseReserve struct {
		To     Actor
		ID     string
		Detail string
	}

	// AnswerLock answers a lock with the slots to read.
	AnswerLock struct {
		To    Actor
		ID    string
		Slots []Slot
	}

	// AnswerFlush answers a flush that dropped blocks. Fault is the reason why some were not
	// erased; empty if all were.
	AnswerFlush struct {
		To     Actor
		ID     string
		Blocks int
		Fault  string
	}
)

// Work.
type (
	// Copy copies blocks to the tier below. The caller reports CopyEnded.
	Copy struct {
		Number uint64 // of the copy; unique within a machine
		Blocks []kv.Demotion
	}

	// Erase erases slots. The caller reports Erased.
	Erase struct {
		ID    string
		Slots []int32
	}

	// Export is an effect of the export machine, other than Lock, Unlock and Drop.
	Export struct{ export.Effect }

	// Announce sends the changes of the blocks to the router.
	Announce struct{ kv.Announcement }
)

// Timers.
type (
	// ExpireReservation asks the caller to report ReservationTimeout after a delay.
	ExpireReservation struct {
		ID    string
		After time.Duration
	}

	// ExpirePins asks the caller to report PinsTimeout after a delay.
	ExpirePins struct {
		Replica string
		Version uint64
		After   time.Duration
	}

	// Pause reports a failed copy and asks the caller to report Retry after a delay.
	Pause struct{ After time.Duration }
)

// Notices, for logs.
type (
	// Dropped reports blocks that were dropped to make room.
	Dropped struct {
		Blocks int
		Why    string
	}

	// Damaged reports a block that was dropped because its content is damaged.
	Damaged struct{ Hash kv.Hash }

	// TimedOut reports a reservation that waited too long. Blocks of another size are dropped to
	// serve it.
	TimedOut struct{ Waited time.Duration }

	// Ignored reports an event that has no row in the table and changed nothing.
	Ignored struct {
		Object  Object
		ID      string // of the request, or the name of the replica; empty for the demotion
		State   State
		Trigger Trigger
	}
)

func (AnswerReserve) isEffect()     {}
func (RefuseReserve) isEffect()     {}
func (AnswerLock) isEffect()        {}
func (AnswerFlush) isEffect()       {}
func (Copy) isEffect()              {}
func (Erase) isEffect()             {}
func (Export) isEffect()            {}
func (Announce) isEffect()          {}
func (ExpireReservation) isEffect() {}
func (ExpirePins) isEffect()        {}
func (Pause) isEffect()             {}
func (Dropped) isEffect()           {}
func (Damaged) isEffect()           {}
func (TimedOut) isEffect()          {}
func (Ignored) isEffect()           {}

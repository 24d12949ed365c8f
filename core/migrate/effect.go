package migrate

import (
	"time"

	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Effects of both machines.
type (
	// Watch starts watching another replica.
	Watch struct{ Peer Actor }
	// Unwatch stops watching a replica, unless Uses of the other machine reports true for it.
	Unwatch struct{ Peer Actor }
	// DropSequence removes a sequence from this replica.
	DropSequence struct{ ID string }
	// Ignored reports an event that changed nothing.
	Ignored struct {
		Key
		State string
		Event Event
		Why   string
	}
)

// Effects of the source.
type (
	// SendOffer offers a sequence, with its tokens and block hashes, to the target.
	SendOffer struct {
		Key
		To     Actor
		Tokens int
		Hashes []kv.Hash
	}
	// SendResume asks the target to continue the sequence after these tokens.
	SendResume struct {
		Key
		To     Actor
		Tokens int
		Hashes []kv.Hash
	}
	// Repeat sends the last SendOffer or SendResume of an attempt again.
	Repeat struct {
		Key
		To Actor
	}
	// SendAbandon notifies the target that the sequence stays here.
	SendAbandon struct {
		Key
		To Actor
	}
	// SetTimer sets the timer of an attempt. When it fires, the caller reports Timer.
	SetTimer struct {
		Key
		After time.Duration
	}
	// HoldSequence excludes a sequence from steps until ResumeSequence.
	HoldSequence   struct{ ID string }
	ResumeSequence struct{ ID string }
	// RetainBlocks holds references to blocks while a send reads them, until ReleaseBlocks.
	RetainBlocks  struct{ Blocks []int32 }
	ReleaseBlocks struct{ Blocks []int32 }
	// SendBlocks sends blocks over the data plane. Indices[i] is the position of Blocks[i] in the
	// sequence. The caller reports Sent or SendFailed, even after CancelSend.
	SendBlocks struct {
		Key
		Indices []uint32
		Blocks  []int32
	}
	// CancelSend cancels the send in progress of an attempt, if there is one.
	CancelSend struct{ Key }
	// Redirect notifies the session that the sequence runs at the target.
	Redirect struct {
		ID          string
		Target      string
		To          Actor
		Incarnation uint64
		Node        string
		Cause       string
		Report      Report
	}
	// End logs the outcome of an attempt and forgets its messages.
	End struct {
		Key
		Target string
		Report Report
	}
	// AnswerCommand and RefuseCommand answer a MigrateSequences command.
	AnswerCommand struct {
		To        Actor
		RequestID string
		Reports   []Report
	}
	RefuseCommand struct {
		To        Actor
		RequestID string
		Refusal   Refusal
	}
	// StartNext asks the caller to call Start with the sequences of Waiting.
	StartNext struct{}
)

// Effects of the target.
type (
	// KeepOffer and KeepResume keep the message of this event, for Reserve, Adopt and AnswerOffer
	// to use.
	KeepOffer  struct{ Key }
	KeepResume struct{ Key }
	// Forget discards the messages kept for an attempt.
	Forget struct{ Key }
	// Reserve reserves the blocks of the kept offer and pins its adapter. The caller reports
	// Reserved or NotReserved at once.
	Reserve struct{ Key }
	// Unreserve releases the reservation of an attempt.
	Unreserve struct{ Key }
	// ReleaseAdapter releases the adapter that a failed Reserve may have left pinned.
	ReleaseAdapter struct{ Key }
	// OpenSink opens a transfer into the reserved blocks. The caller reports Opened or OpenFailed.
	OpenSink struct{ Key }
	// CloseSink rejects further blocks. Once no write is in progress, the caller reports Closed,
	// with whether the first Blocks blocks have arrived.
	CloseSink struct {
		Key
		Blocks int
	}
	// AskSink asks for the time at which the last block arrived. The caller reports Heard.
	AskSink struct{ Key }
	// SetExpiry sets the timer of an attempt. When it fires, the caller reports Expire.
	SetExpiry struct {
		Key
		After time.Duration
	}
	// AnswerOffer accepts an offer and names the blocks that are missing here.
	AnswerOffer struct {
		Key
		To      Actor
		Missing []uint32
	}
	// RefuseOffer refuses an offer.
	RefuseOffer struct {
		Key
		To      Actor
		Refusal Refusal
	}
	// Adopt starts the sequence of the kept messages in its reservation. The caller reports Adopted
	// or NotAdopted at once. It consumes the reservation.
	Adopt struct{ Key }
	// AnswerResume reports to the source that the sequence runs here, or why not.
	AnswerResume struct {
		Key
		To      Actor
		Refusal *Refusal
	}
	// CancelMigration cancels the migration of a sequence from here to a third replica.
	CancelMigration struct {
		ID  string
		Why string
	}
	// AnswerOffers asks the caller to report StepEnded if no step is in flight.
	AnswerOffers struct{}
)

func (Watch) isEffect()           {}
func (Unwatch) isEffect()         {}
func (DropSequence) isEffect()    {}
func (Ignored) isEffect()         {}
func (SendOffer) isEffect()       {}
func (SendResume) isEffect()      {}
func (Repeat) isEffect()          {}
func (SendAbandon) isEffect()     {}
func (SetTimer) isEffect()        {}
func (HoldSequence) isEffect()    {}
func (ResumeSequence) isEffect()  {}
func (RetainBlocks) isEffect()    {}
func (ReleaseBlocks) isEffect()   {}
func (SendBlocks) isEffect()      {}
func (CancelSend) isEffect()      {}
func (Redirect) isEffect()        {}
func (End) isEffect()             {}
func (AnswerCommand) isEffect()   {}
func (RefuseCommand) isEffect()   {}
func (StartNext) isEffect()       {}
func (KeepOffer) isEffect()       {}
func (KeepResume) isEffect()      {}
func (Forget) isEffect()          {}
func (Reserve) isEffect()         {}
func (Unreserve) isEffect()       {}
func (ReleaseAdapter) isEffect()  {}
func (OpenSink) isEffect()        {}
func (CloseSink) isEffect()       {}
func (AskSink) isEffect()         {}
func (SetExpiry) isEffect()       {}
func (AnswerOffer) isEffect()     {}
func (RefuseOffer) isEffect()     {}
func (Adopt) isEffect()           {}
func (AnswerResume) isEffect()    {}
func (CancelMigration) isEffect() {}
func (AnswerOffers) isEffect()    {}

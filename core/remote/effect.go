package remote

import (
	"time"

	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// AskRouter forwards the lookup of this event to the router.
type AskRouter struct{}

// AnswerFind answers a lookup with the holders of this event and the path to each of them. Without
// paths, the answer has no holders.
type AnswerFind struct {
	To    Actor
	ID    string
	Paths []kv.Path
}

// Keep keeps the command of the fetch in this event until Forget.
type Keep struct{ ID string }

// Forget drops the command of a fetch.
type Forget struct{ ID string }

// Lease asks a holder for the blocks of a fetch. The caller reports Sent, Refused or Failed, after
// Within at the latest.
type Lease struct {
	ID     string
	Holder Actor
	Within time.Duration
}

// Release tells a holder that the requester no longer waits for the blocks of a fetch.
type Release struct {
	ID     string
	Holder Actor
}

// AnswerFetch reports to the requester the number of blocks that were sent.
type AnswerFetch struct {
	To     Actor
	ID     string
	Blocks int
}

// Relay refuses a fetch with the refusal that the holder sent, which is in this event.
type Relay struct {
	To Actor
	ID string
}

// Refuse refuses a fetch.
type Refuse struct {
	To         Actor
	ID         string
	Reason     Reason
	Detail     string
	RetryAfter time.Duration // 0: not known
}

// SweepAfter asks the caller to report Sweep after a delay.
type SweepAfter struct{ After time.Duration }

// Ignored reports an event that has no row in the table and changed nothing.
type Ignored struct {
	Object  Object
	ID      string
	State   State
	Trigger Trigger
}

// Reason is the reason why a fetch is refused.
type Reason uint8

// Reasons.
const (
	Invalid Reason = iota
	QueueFull
	DeadlinePassed
	Internal
	NotReady
)

// String returns the name of the reason.
func (r Reason) String() string {
	return [...]string{"invalid", "queue full", "deadline passed", "internal", "not ready"}[r]
}

func (AskRouter) isEffect()   {}
func (AnswerFind) isEffect()  {}
func (Keep) isEffect()        {}
func (Forget) isEffect()      {}
func (Lease) isEffect()       {}
func (Release) isEffect()     {}
func (AnswerFetch) isEffect() {}
func (Relay) isEffect()       {}
func (Refuse) isEffect()      {}
func (SweepAfter) isEffect()  {}
func (Ignored) isEffect()     {}

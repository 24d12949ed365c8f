package export

import (
	"time"

	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Lock locks the leading blocks of the request that the holder has. The caller reports their
// numbers with Locked.
type Lock struct{ Request Request }

// Send sends the locked blocks: the leading ones of the request that this event carries. When the
// sending has ended, after Within at the latest, the caller reports Ended.
type Send struct {
	ID     string
	Blocks []int32
	Within time.Duration
}

// Cancel ends the sending of blocks.
type Cancel struct{ ID string }

// Drop discards damaged blocks. Hashes are those of the report.
type Drop struct{ Hashes []kv.Hash }

// Unlock unlocks the blocks of an export.
type Unlock struct{ Blocks []int32 }

// Answer reports to the requester how many blocks it received.
type Answer struct {
	To     Actor
	ID     string
	Blocks int
}

// Refuse reports to the requester that it received no usable answer.
type Refuse struct {
	To         Actor
	ID         string
	Reason     Reason
	Detail     string
	RetryAfter time.Duration // 0: none
}

// Ignored reports an event that changed nothing.
type Ignored struct {
	ID    string
	State State
	Event Event
}

func (Lock) isEffect()    {}
func (Send) isEffect()    {}
func (Cancel) isEffect()  {}
func (Drop) isEffect()    {}
func (Unlock) isEffect()  {}
func (Answer) isEffect()  {}
func (Refuse) isEffect()  {}
func (Ignored) isEffect() {}

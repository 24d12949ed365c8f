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

// Send sends the locked blocks, which are the first ones of the request in this event. The caller
// ends the transfer after Within at the latest and then reports Ended.
type Send struct {
	ID     string
	Blocks []int32
	Within time.Duration
}

// Cancel cancels a Send in progress.
type Cancel struct{ ID string }

// Drop discards damaged blocks. Hashes are those that Ended reported.
type Drop struct{ Hashes []kv.Hash }

// Unlock unlocks the blocks of an export.
type Unlock struct{ Blocks []int32 }

// Answer reports to the requester the number of blocks that were sent.
type Answer struct {
	To     Actor
	ID     string
	Blocks int
}

// Refuse answers a lease with an error: it was refused, or its blocks could not be sent.
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

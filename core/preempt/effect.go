package preempt

import "time"

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Fence tells the replica to accept no sequences; Fenced and Drained answer.
type Fence struct{}

// Migrate migrates all sequences to the target; Migrated answers with the round.
type Migrate struct {
	Target string
	Round  uint64 // 1 for the first command of this machine
}

// Save saves and requeues all sequences; Saved answers.
type Save struct{}

// Free stops the replica and frees its memory; Freed answers.
type Free struct{}

// SetTimer asks for a Tick after the given time.
type SetTimer struct{ After time.Duration }

// Entered reports a new phase.
type Entered struct{ Phase Phase }

// Ignored reports an event that changed nothing.
type Ignored struct {
	Phase Phase
	Event Event
}

func (Fence) isEffect()    {}
func (Migrate) isEffect()  {}
func (Save) isEffect()     {}
func (Free) isEffect()     {}
func (SetTimer) isEffect() {}
func (Entered) isEffect()  {}
func (Ignored) isEffect()  {}

package turns

import "time"

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Grant gives a replica a turn.
type Grant struct {
	Replica string
	Turn    uint64
	Open    bool // until Recall, not for one step
	Why     Reason
	Waited  time.Duration
}

// Recall asks a replica to end its open turn after the step that it runs, or at once.
type Recall struct {
	Replica string
	Turn    uint64
}

// SetTimer asks for a call of Timer with the replica and the turn; 0 for a replica that is expected.
type SetTimer struct {
	Replica string
	Turn    uint64
	After   time.Duration
}

// ReportOverdue reports that a turn lasts far longer than expected. The next turn is granted
// without waiting for its end. Turn 0 stands for a replica that was expected and did not join.
type ReportOverdue struct {
	Replica             string
	Turn                uint64
	Lasted, Expectation time.Duration
}

// Ignored reports an event that changes nothing.
type Ignored struct {
	Replica string
	State   State
	Event   Event
	Why     string
}

func (Grant) isEffect()         {}
func (Recall) isEffect()        {}
func (SetTimer) isEffect()      {}
func (ReportOverdue) isEffect() {}
func (Ignored) isEffect()       {}

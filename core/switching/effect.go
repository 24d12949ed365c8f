package switching

import "time"

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Effects.
type (
	// Entered reports a phase.
	Entered struct {
		ID    string
		Phase Phase
	}

	// SetDeadline asks for Deadline with this number after a duration.
	SetDeadline struct {
		Number uint64
		After  time.Duration
	}

	// BringBack asks for replicas to serve again as they did before the switch.
	BringBack struct {
		ID     string
		Leases []string // in the order of the request
	}

	// Ended reports the end of a switch.
	Ended struct {
		ID, To  string
		Failure string // empty: the model serves
		// Conflict is set if it failed because a level of its replicas was changed.
		Conflict bool
		Phase    Phase // in which it ended
		Metrics  Metrics
	}

	// Refuse answers a Begin while another switch is in progress.
	Refuse struct {
		ID         string
		InProgress Status
	}

	// Ignored reports an event that changes nothing.
	Ignored struct {
		Phase Phase
		Event Event
		Why   string
	}
)

func (Entered) isEffect()     {}
func (SetDeadline) isEffect() {}
func (BringBack) isEffect()   {}
func (Ended) isEffect()       {}
func (Refuse) isEffect()      {}
func (Ignored) isEffect()     {}

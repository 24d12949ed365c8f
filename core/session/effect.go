package session

import "time"

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// AskRoute asks the router for a replica.
type AskRoute struct {
	Avoid    []string // replicas that were lost since the last new token
	Cause    string   // what happened to the previous replica; empty at first
	Revision string   // of the files that computed the output; empty without output
	Begun    bool     // it has output, or a replica was found for it before
}

// Withdraw gives up the place at the router.
type Withdraw struct{}

// Submit sends a replica the sequence and its output, even if the replica already has the sequence.
type Submit struct {
	To       Actor
	Revision string        // as in AskRoute
	Waited   time.Duration // since the session got its place; 0 if it gets it now
}

// Query asks a replica whether it has the sequence.
type Query struct{ To Actor }

// Cancel tells a replica to drop the sequence.
type Cancel struct {
	At  Actor
	Why CancelReason
}

// Abandon cancels the sequence at a silent replica, which may still run it, and logs that another
// one serves it instead.
type Abandon struct {
	Replica Replica
	Instead string
}

// Watch and Unwatch begin and end the watch of a replica.
type (
	Watch   struct{ Replica Actor }
	Unwatch struct{ Replica Actor }
)

// SetTimer replaces the timer. When it fires, the caller reports Timer with the attempt.
type SetTimer struct {
	After   time.Duration
	Attempt uint64
}

// StopTimer stops the timer.
type StopTimer struct{}

// Deliver sends the client the event's tokens without the first Skip, and the finish.
type Deliver struct{ Skip int }

// Relay fails the call with the refusal that the event carries.
type Relay struct{}

// Fail fails the call with a refusal of the session itself.
type Fail struct {
	Reason Reason
	Detail string
}

// KeepRevision stores the digest of the files that compute the output, so that it survives a crash
// of the actor.
type KeepRevision struct{ Digest string }

// KeepPlace stores when the session got its place, so that it survives a crash of the actor.
type KeepPlace struct{ At time.Time }

// KeepBegun stores that a replica was found, so that it survives a crash of the actor.
type KeepBegun struct{}

// ReportMove reports the move of this event to the router.
type ReportMove struct{}

// End stops the actor.
type End struct{}

// Ignored reports an event that changed nothing.
type Ignored struct {
	State State
	Event Event
	Why   string
}

// CancelReason is the reason for which a replica drops the sequence.
type CancelReason uint8

// Reasons to cancel.
const (
	SessionEnded CancelReason = iota // the session ended
	Duplicate                        // another replica decodes the sequence too
	Stray                            // a replica other than the assigned one moved it there
	OtherFiles                       // the output was computed by other files than the replica's
)

func (r CancelReason) String() string {
	return [...]string{"session ended", "duplicate", "stray", "other files"}[r]
}

func (AskRoute) isEffect()     {}
func (Withdraw) isEffect()     {}
func (Submit) isEffect()       {}
func (Query) isEffect()        {}
func (Cancel) isEffect()       {}
func (Abandon) isEffect()      {}
func (Watch) isEffect()        {}
func (Unwatch) isEffect()      {}
func (SetTimer) isEffect()     {}
func (StopTimer) isEffect()    {}
func (Deliver) isEffect()      {}
func (Relay) isEffect()        {}
func (Fail) isEffect()         {}
func (KeepRevision) isEffect() {}
func (KeepPlace) isEffect()    {}
func (KeepBegun) isEffect()    {}
func (ReportMove) isEffect()   {}
func (End) isEffect()          {}
func (Ignored) isEffect()      {}

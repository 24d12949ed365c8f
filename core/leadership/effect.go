package leadership

import "time"

// Effect is an action for the caller to carry out.
type Effect interface{ isEffect() }

// Acquire tells the caller to acquire the lease and to report with Answered.
type Acquire struct{ Deployment string }

// Release tells the caller to release the lease of a term and to report with Answered.
type Release struct {
	Deployment string
	Term       uint64
}

// Start tells the caller to start the deployment, and to report with NotStarted if that fails and
// with Ended when it ends.
type Start struct {
	Deployment string
	Term       uint64
}

// Stop tells the caller to stop the deployment and to report with Ended.
type Stop struct {
	Deployment string
	Why        StopCause
	Holder     string // of the lease, with LeaseLost; empty: none
}

// RetryAfter tells the caller to call Sync after this time, when it is this node's turn.
type RetryAfter struct{ Wait time.Duration }

// Ignored reports an event that is not in the table.
type Ignored struct {
	Deployment string
	State      State
	Event      Event
}

func (Acquire) isEffect()    {}
func (Release) isEffect()    {}
func (Start) isEffect()      {}
func (Stop) isEffect()       {}
func (RetryAfter) isEffect() {}
func (Ignored) isEffect()    {}

// StopCause is the reason for a Stop.
type StopCause uint8

const (
	LeaseLost StopCause = iota // the lease is lost, or the node is leaving
	Deleted                    // the deployment is deleted, and nothing is left of it
)

// String returns the name of the cause.
func (c StopCause) String() string { return [...]string{"lease lost", "deleted"}[c] }

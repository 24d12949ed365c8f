package session

import "time"

// Reason is why a router or replica refused or interrupted a sequence.
type Reason uint8

// Reasons. Those that the package does not tell apart are Other.
const (
	Other         Reason = iota
	NotReady             // it is starting
	Draining             // it takes nothing new
	WeightsDiffer        // it has other files than those that the sequence needs
	EngineFailed
	LoadFailed
	NoMemory
	QueueFull
	NotFound
	Unsupported
	Numeric // the model or its adapter computed NaN or infinity
	DeadlinePassed
)

func (r Reason) String() string {
	return [...]string{"other", "not-ready", "draining", "weights-differ", "engine-failed", "load-failed", "no-memory",
		"queue-full", "not-found", "unsupported", "numeric", "deadline-passed"}[r]
}

// Refusal is a refusal or an interruption. RetryAfter is 0 if it names no delay.
type Refusal struct {
	Reason     Reason
	Detail     string
	RetryAfter time.Duration
}

// routeFinal reports whether a refusal of the router ends the session.
func routeFinal(_ *Machine, e event) bool { return e.refusal.Reason != NotReady }

// submitFinal reports whether no other replica would take the sequence that one refused. A replica
// with other weights may, unless the sequence has an adapter, which belongs to the deployed weights,
// and its output does not belong to others.
func submitFinal(m *Machine, e event) bool {
	switch e.refusal.Reason {
	case NotReady, Draining:
		return false
	case WeightsDiffer:
		return m.cfg.Adapter && m.outputRevision() == ""
	}
	return true
}

// interruptFinal reports whether no other replica would take the sequence that one interrupted,
// because of the request or its adapter.
func interruptFinal(_ *Machine, e event) bool {
	switch e.refusal.Reason {
	case EngineFailed, LoadFailed, NoMemory, QueueFull, NotFound, Unsupported, Numeric:
		return true
	}
	return false
}

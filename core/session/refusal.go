package session

import "time"

// Reason is why a router or replica refused or interrupted a sequence.
type Reason uint8

// Reasons. Other stands for every reason that this package does not distinguish.
const (
	Other         Reason = iota
	NotReady             // it is starting
	Draining             // it accepts no new sequences
	Faulty               // a step of it hangs, or it gave a wrong answer
	WeightsDiffer        // its files differ from those that the sequence needs
	EngineFailed
	LoadFailed
	NoMemory
	QueueFull
	NotFound
	Unsupported
	Numeric // the model or its adapter computed NaN or infinity
	DeadlinePassed
	Preempted // the replica was preempted, or the last one of the model
)

func (r Reason) String() string {
	return [...]string{"other", "not-ready", "draining", "faulty", "weights-differ", "engine-failed", "load-failed",
		"no-memory", "queue-full", "not-found", "unsupported", "numeric", "deadline-passed", "preempted"}[r]
}

// Refusal is a refusal or an interruption. RetryAfter is 0 if it names no delay.
type Refusal struct {
	Reason     Reason
	Detail     string
	RetryAfter time.Duration
}

// routeFinal reports whether a refusal of the router ends the session. A session that has a place
// keeps it while the model is preempted, and waits for a replica until its deadline.
func routeFinal(m *Machine, e event) bool {
	switch e.refusal.Reason {
	case NotReady:
		return false
	case Preempted:
		return m.placed.IsZero()
	}
	return true
}

// submitFinal reports whether every other replica would also refuse the sequence. WeightsDiffer is
// final only for a sequence with an adapter and no output: the adapter needs the deployed weights.
func submitFinal(m *Machine, e event) bool {
	switch e.refusal.Reason {
	case NotReady, Draining, Faulty:
		return false
	case WeightsDiffer:
		return m.cfg.Adapter && m.outputRevision() == ""
	}
	return true
}

// interruptPreempted reports whether a replica gave up a sequence that may go on elsewhere, which
// says nothing about the sequence.
func interruptPreempted(m *Machine, e event) bool {
	return e.refusal.Reason == Preempted && !m.expired(e)
}

// interruptFinal reports whether the cause of an interruption is the request or its adapter, so
// that no other replica would accept the sequence.
func interruptFinal(_ *Machine, e event) bool {
	switch e.refusal.Reason {
	case EngineFailed, LoadFailed, NoMemory, QueueFull, NotFound, Unsupported, Numeric:
		return true
	}
	return false
}

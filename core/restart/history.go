package restart

import (
	"slices"
	"time"
)

const (
	// Window is the time for which a failure of an actor counts.
	Window = 30 * time.Second

	maxRestarts  = 3                     // maximum number of restarts within Window
	firstBackoff = 50 * time.Millisecond // delay of the second restart; the third is delayed four times as long
)

// Action is the action taken on a failed actor.
type Action uint8

// Actions.
const (
	Restart Action = iota // start the next incarnation after the delay of the decision
	Stop                  // stop the actor and notify its parent
)

func (a Action) String() string { return [...]string{"restart", "stop"}[a] }

// Decision is the outcome of a failure.
type Decision struct {
	Action Action
	Delay  time.Duration // before a restart; zero: at once
}

// History records the recent failures of one actor. The zero value has none. It is not safe for
// concurrent use.
type History struct {
	failures []time.Time // failures within Window of the last one, in order
}

// Fail records a failure and decides what happens to the actor. permanent means that the failure
// would recur after a restart.
func (h *History) Fail(now time.Time, permanent bool) Decision {
	h.failures = append(h.recent(now), now)
	if n := len(h.failures); !permanent && n <= maxRestarts {
		return Decision{Restart, Backoff(n)}
	}
	h.failures = nil
	return Decision{Action: Stop}
}

// Empty reports whether all failures are forgotten.
func (h *History) Empty(now time.Time) bool { return len(h.recent(now)) == 0 }

func (h *History) recent(now time.Time) []time.Time {
	first := slices.IndexFunc(h.failures, func(t time.Time) bool { return now.Sub(t) < Window })
	if first < 0 {
		return nil
	}
	return slices.Clone(h.failures[first:])
}

// Backoff returns the delay before restart n of an actor, counted from 1.
func Backoff(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return firstBackoff << (2 * (min(n, 8) - 2))
}

package leadership

import "troupe/core/table"

// State is the state of a node with respect to one deployment.
type State uint8

const (
	Follower  State = iota // does not run the deployment, and has nothing in flight
	Acquiring              // its Acquire is in flight
	Leading                // runs the deployment
	Stopping               // waits until the deployment has stopped
	Releasing              // its Release is in flight
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"follower", "acquiring", "leading", "stopping", "releasing"}[s]
}

// Event is an event of the role that a node has for one deployment.
type Event uint8

const (
	sync       Event = iota // the leases were observed
	answered                // an Acquire or Release has ended
	notStarted              // the child could not be started
	ended                   // the child has stopped, or crashed too often
	removed                 // nothing is left of the deployment, which is deleted
)

// String returns the name of the event.
func (e Event) String() string {
	return [...]string{"sync", "answered", "notStarted", "ended", "removed"}[e]
}

// conditions is a set of facts about an event; see doc.go.
type conditions uint8

const (
	isOurs conditions = 1 << iota
	isLeaving
	isTurn
	isCurrent
	isDeleted
	isHeld
)

// with adds a condition if it holds.
func (c conditions) with(one conditions, holds bool) conditions {
	if holds {
		c |= one
	}
	return c
}

type (
	row   = table.Row[State, Event, conditions, struct{}]
	guard = table.Guard[conditions]
)

func on(e Event, from State, when guard, to State, does string) row {
	return row{On: e, From: []State{from}, When: when, To: to, Does: does}
}

const same = table.Same

var (
	always  = guard{}
	ours    = guard{"ours", isOurs}
	leaving = guard{"leaving", isLeaving}
	turn    = guard{"turn", isTurn}
	current = guard{"current", isCurrent}
	deleted = guard{"deleted", isDeleted}
	held    = guard{"held", isHeld}
)

// rows is the table of doc.go. The first row that fits applies.
var rows = table.New("leadership", []row{
	on(sync, Follower, ours, Leading, "start"),
	on(sync, Follower, leaving, Releasing, "release"),
	on(sync, Follower, turn, Acquiring, "acquire"),
	on(sync, Follower, always, same, "retry after, while it waits for its turn"),
	on(sync, Acquiring, always, same, "—"),
	on(sync, Leading, current, same, "—"),
	on(sync, Leading, always, Stopping, "stop"),
	on(sync, Stopping, always, same, "—"),
	on(sync, Releasing, always, same, "—"),
	on(answered, Acquiring, always, Follower, "—"),
	on(answered, Releasing, always, Follower, "—"),
	on(notStarted, Leading, always, Follower, "—"),
	on(removed, Leading, deleted, Stopping, "stop"),
	on(ended, Leading, held, Releasing, "release; no acquire for CrashCooldown"),
	on(ended, Leading, always, Follower, "—"),
	on(ended, Stopping, held, Releasing, "release"),
	on(ended, Stopping, always, Follower, "—"),
})

// next returns the next state, or false if the table has no transition.
func next(from State, on Event, c conditions) (State, bool) {
	r := rows.Find(from, on, func(one conditions) bool { return c&one != 0 })
	if r == nil || r.To == same {
		return from, r != nil
	}
	return r.To, true
}

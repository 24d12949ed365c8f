package leadership

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

// guard is a condition of a transition; see doc.go.
type guard uint8

const (
	always guard = iota
	ours
	leaving
	turn
	current
	deleted
	held
)

// String returns the guard's name in the table of doc.go.
func (g guard) String() string {
	return [...]string{"-", "ours", "leaving", "turn", "current", "deleted", "held"}[g]
}

// transition is a row of the table.
type transition struct {
	from State
	on   Event
	when guard
	to   State
}

// table lists all transitions. Of the rows with the same state and event, the first whose guard
// holds applies.
var table = []transition{
	{Follower, sync, ours, Leading},
	{Follower, sync, leaving, Releasing},
	{Follower, sync, turn, Acquiring},
	{Follower, sync, always, Follower},
	{Acquiring, sync, always, Acquiring},
	{Leading, sync, current, Leading},
	{Leading, sync, always, Stopping},
	{Stopping, sync, always, Stopping},
	{Releasing, sync, always, Releasing},
	{Acquiring, answered, always, Follower},
	{Releasing, answered, always, Follower},
	{Leading, notStarted, always, Follower},
	{Leading, removed, deleted, Stopping},
	{Leading, ended, held, Releasing},
	{Leading, ended, always, Follower},
	{Stopping, ended, held, Releasing},
	{Stopping, ended, always, Follower},
}

// conditions has the guards that hold for an event.
type conditions uint8

// with adds a guard if it holds.
func (c conditions) with(g guard, is bool) conditions {
	if is {
		c |= 1 << g
	}
	return c
}

// next returns the next state, or false if the table has no transition.
func next(from State, on Event, c conditions) (State, bool) {
	for _, t := range table {
		if t.from == from && t.on == on && (t.when == always || c&(1<<t.when) != 0) {
			return t.to, true
		}
	}
	return from, false
}

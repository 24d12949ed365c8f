package session

// State is the state of a session.
type State uint8

// States.
const (
	Created   State = iota // before Start
	Routing                // the router was asked for a replica
	Delayed                // waits before it asks the router again
	Waiting                // has a place at the router until a replica serves
	Submitted              // a replica was given the sequence and has not answered yet
	Serving                // a replica has the sequence
	Ended                  // the client has its outcome or left
)

func (s State) String() string {
	return [...]string{"created", "routing", "delayed", "waiting", "submitted", "serving", "ended"}[s]
}

// Event is a kind of event. Each is a method of Machine.
type Event uint8

// Events.
const (
	Start         Event = iota // the actor started
	Routed                     // the router returned a replica
	RouteRefused               // the router refused
	Queued                     // the router gave the sequence a place, since no replica serves yet
	Accepted                   // the replica accepted the sequence
	SubmitRefused              // the replica refused the sequence
	Emitted                    // a replica sent tokens
	Interrupted                // a replica no longer has the sequence
	Status                     // a replica answered a query
	Moved                      // a replica migrated the sequence to another one
	Lost                       // a replica stopped or cannot be reached
	Timer                      // the timer fired
	Close                      // the client left or needs nothing more
	Stop                       // the actor stops or restarts
)

func (e Event) String() string {
	return [...]string{"start", "routed", "route-refused", "queued", "accepted", "submit-refused", "emitted",
		"interrupted",
		"status", "moved", "lost", "timer", "close", "stop"}[e]
}

// Actor is the address of an actor. The zero value is an unknown sender, which counts as the
// assigned replica.
type Actor struct{ Address, ID string }

// Replica is a replica that can serve the sequence.
type Replica struct {
	Name        string
	Actor       Actor
	Incarnation uint64
}

// Tokens describes tokens that a replica sent.
type Tokens struct {
	From         Actor
	First, Count int // index of the first in the output, and their number
	Finished     bool
	Revision     uint64 // Fingerprint of the files that computed them
}

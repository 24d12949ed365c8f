package turns

import "time"

// State is the state of a replica on the device.
type State uint8

// States.
const (
	Absent   State = iota // does not share the device
	Idle                  // has nothing to run
	Waiting               // has asked for a turn
	Holding               // runs one step
	Open                  // runs steps until it is recalled
	Recalled              // was asked to end its open turn after its step
	Overdue               // its turn lasts far longer than expected
	Expected              // an earlier machine of the device had it; it may still run a step
)

func (s State) String() string {
	return [...]string{"absent", "idle", "waiting", "holding", "open", "recalled", "overdue", "expected"}[s]
}

// Event is a kind of event. Each is a method of Machine.
type Event uint8

// Events.
const (
	Finds Event = iota // an earlier machine of the device had a replica
	Joins              // a replica shares the device from now on
	Asks               // it has work
	Ends               // its turn has ended
	Fires              // the timer of a turn fired
	Parts              // a replica no longer shares the device
)

func (e Event) String() string {
	return [...]string{"expect", "join", "ask", "end", "timer", "leave"}[e]
}

// Class is the priority class of the work in a turn. Higher classes go first. The values are those
// of batch.Class.
type Class int

// Request describes the work that a replica asks a turn for.
type Request struct {
	Class    Class         // highest class of its sequences
	Deadline time.Time     // when its next token is due by its SLO; zero: none
	Estimate time.Duration // expected duration of one step
	Prompt   bool          // its next step may compute a prompt, with which a first token begins
	Weight   float64       // among the replicas of its class; 0 means 1
}

// Reason is why a replica got a turn.
type Reason uint8

// Reasons.
const (
	Alone    Reason = iota // no other replica waits
	Waited                 // it has waited for MaxWait
	Higher                 // its class is higher than that of the others
	Pressed                // it would miss its deadline if another went first
	Prompted               // it has a prompt to compute
	Share                  // it is furthest behind its fair share
)

func (r Reason) String() string {
	return [...]string{"no other replica waits", "waited too long", "highest class", "deadline", "prompt",
		"fair share"}[r]
}

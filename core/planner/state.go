package planner

// State is the state of a planner.
type State uint8

// States.
const (
	Idle      State = iota // nothing is in flight
	Acquiring              // the lease is being acquired
	Storing                // a decision is being stored
)

func (s State) String() string { return [...]string{"idle", "acquiring", "storing"}[s] }

// Event is a kind of event.
type Event uint8

// Events.
const (
	Tick     Event = iota // a second has passed
	View                  // the router sent the deployments
	Decided               // a deployment needs another number of replicas
	WriteEnd              // the write ended, with or without success
)

func (e Event) String() string { return [...]string{"tick", "view", "decided", "write end"}[e] }

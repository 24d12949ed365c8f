package planner

// State is the state of a planner.
type State uint8

// States.
const (
	Idle      State = iota // nothing is in flight
	Acquiring              // the lease is being acquired
	Observing              // the router is asked for the deployments
	Surveying              // the devices are asked
	Planning               // a plan is being made
	Storing                // a deployment is being stored
)

func (s State) String() string {
	return [...]string{"idle", "acquiring", "observing", "surveying", "planning", "storing"}[s]
}

// Event is a kind of event.
type Event uint8

// Events.
const (
	Tick     Event = iota // some time has passed
	Asked                 // an operator asks for a plan
	Acquired              // the attempt to acquire the lease has ended
	Viewed                // the router answered, or not in time
	Surveyed              // the devices answered, or not in time
	Planned               // the plan is made
	Stored                // a write has ended
)

func (e Event) String() string {
	return [...]string{"tick", "asked", "acquired", "viewed", "surveyed", "planned", "stored"}[e]
}

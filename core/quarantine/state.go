package quarantine

import (
	"time"

	"troupe/core/health"
)

// State is the state of a device.
type State uint8

// States.
const (
	Healthy     State = iota // the device may take models
	Quarantined              // the device takes no new model; those on it continue to work
	Lost                     // like Quarantined, but the models on the device are lost
)

func (s State) String() string { return [...]string{"healthy", "quarantined", "lost"}[s] }

// Test is the state of the self-test.
type Test uint8

// States of the self-test.
const (
	Idle Test = iota
	Running
)

func (t Test) String() string { return [...]string{"idle", "running"}[t] }

// Event is a kind of event.
type Event uint8

// Events.
const (
	Fault      Event = iota // the device failed, or an operator quarantines it
	Release                 // an operator releases it
	Passed                  // the self-test passed
	Failed                  // the self-test failed
	Observed                // the device was observed; faults in the observation were handled before
	Suspicious              // a step hung on the device, or gave a wrong answer
)

func (e Event) String() string {
	return [...]string{"fault", "release", "passed", "failed", "observed", "suspicious"}[e]
}

// Actor is the address of an actor. The zero value is none.
type Actor struct{ Address, ID string }

// Request is a command to be answered.
type Request struct {
	ID   string
	From Actor
}

// Quarantine says why a device is excluded from use, and since when.
type Quarantine struct {
	Cause    health.Cause
	Detail   string // for people
	Since    time.Time
	SelfTest string // result of the last self-test; empty: none yet
}

// Note is an unusual observation.
type Note struct {
	Time   time.Time
	Detail string
}

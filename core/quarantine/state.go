package quarantine

import (
	"time"

	"troupe/core/health"
)

// State is the state of a device.
type State uint8

// States.
const (
	Healthy     State = iota // may take models
	Quarantined              // takes no new model; those on it work
	Lost                     // as Quarantined, and the models on it are lost
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
	Fault    Event = iota // the device failed, or an operator quarantines it
	Release               // an operator releases it
	Passed                // the self-test passed
	Failed                // the self-test failed
	Observed              // the device was observed, after the faults that this showed
)

func (e Event) String() string {
	return [...]string{"fault", "release", "passed", "failed", "observed"}[e]
}

// Actor is the address of an actor. The zero value is none.
type Actor struct{ Address, ID string }

// Request is a command to be answered.
type Request struct {
	ID   string
	From Actor
}

// Quarantine is why and since when a device is excluded from use.
type Quarantine struct {
	Cause    health.Cause
	Detail   string // for people
	Since    time.Time
	SelfTest string // result of the last self-test; empty: none yet
}

// Note is something remarkable that was observed.
type Note struct {
	Time   time.Time
	Detail string
}

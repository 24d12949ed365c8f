package switching

import "time"

// Phase is what a switch waits for.
type Phase uint8

// Phases.
const (
	Serving   Phase = iota // no switch is in progress
	Draining               // sequences of those that leave
	Freeing                // their memory
	Loading                // the weights of the model that comes, and its lease
	Capturing              // its engine and its graphs
)

func (p Phase) String() string {
	return [...]string{"serving", "draining", "freeing", "loading", "capturing"}[p]
}

// Event is a kind of event.
type Event uint8

// Events.
const (
	evBegin Event = iota
	evDrained
	evFreed
	evSuspended
	evActivated
	evOverruled
	evLoaded
	evServes
	evProgress
	evFailed
	evDeadline
)

func (e Event) String() string {
	return [...]string{"begin", "drained", "freed", "suspended", "activated", "overruled", "loaded", "serves",
		"progress", "failed", "deadline"}[e]
}

// Request asks for a switch.
type Request struct {
	ID      string
	To      string        // the replica that comes; also the name of its lease
	Leave   []string      // the leases that leave
	Timeout time.Duration // after which the switch has failed
}

// Load describes how weights got onto the device.
type Load struct {
	At     time.Time     // when they were there; zero: not known
	Source string        // "disk", "host cache", "device" if they were there before
	Why    string        // why from there
	Bytes  int64         // that were copied
	Floor  time.Duration // the bytes over the slower of source and link; 0 if unknown
}

// Start describes the start of an engine.
type Start struct {
	At     time.Time     // when it was ready; zero: not known
	Graphs int           // that it captured
	Graph  time.Duration // how long that took
	Verify time.Duration // check of the weights by a canary
}

// Metrics is the cost of a switch. Drain, Free, Load and Capture are the durations of its phases. A load
// or a capture from before the switch is not in it.
type Metrics struct {
	Drain, Free, Load, Capture time.Duration
	Weights                    Load
	Engine                     Start
}

// Total returns the duration of the switch.
func (m Metrics) Total() time.Duration { return m.Drain + m.Free + m.Load + m.Capture }

package switching

import (
	"slices"
	"time"
)

// Machine follows the switches of one device. It is not safe for concurrent use.
type Machine struct {
	phase   Phase
	number  uint64 // of the last switch
	current current
	// progress is set while the facts have changed and the phase does not reflect them yet.
	progress bool
	effects  []Effect
}

// current is the switch in progress.
type current struct {
	Request
	serving   []string // of Leave, those that have sequences
	holding   []string // of Leave, those that hold memory
	suspended []string // of Leave, those whose wanted level is standby
	loaded    bool
	serves    bool
	began     time.Time
	entered   time.Time // when its phase began
	metrics   Metrics
}

// Status describes the switch in progress, if there is one.
type Status struct {
	ID, To  string
	Phase   Phase
	Waits   []string  // the leases that the phase waits for
	Entered time.Time // when the phase began
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind    Event
	now     time.Time
	request Request
	lease   string
	load    Load
	start   Start
	number  uint64
	id      string // of the switch
	why     string
}

// New returns a machine without a switch.
func New() *Machine { return &Machine{} }

// Begin begins a switch. The caller then makes the replicas leave.
func (m *Machine) Begin(now time.Time, r Request) []Effect {
	return m.on(event{kind: evBegin, now: now, request: r})
}

// Drained reports that a replica that leaves has no sequence left.
func (m *Machine) Drained(now time.Time, lease string) []Effect {
	return m.on(event{kind: evDrained, now: now, lease: lease})
}

// Freed reports that a replica that leaves has given back its memory, or has ended.
func (m *Machine) Freed(now time.Time, lease string) []Effect {
	return m.on(event{kind: evFreed, now: now, lease: lease})
}

// Suspended reports that the wanted level of a replica that leaves is standby.
func (m *Machine) Suspended(now time.Time, lease string) []Effect {
	return m.on(event{kind: evSuspended, now: now, lease: lease})
}

// Activated reports that a replica that leaves is to serve, or that its level has not changed yet.
func (m *Machine) Activated(now time.Time, lease string) []Effect {
	return m.on(event{kind: evActivated, now: now, lease: lease,
		why: "replica " + lease + " was activated meanwhile"})
}

// Overruled reports that, since a switch began, a level was stored for one of its replicas with which the
// switch cannot succeed. The replica may not have received any level since.
func (m *Machine) Overruled(now time.Time, id, lease string) []Effect {
	why := "replica " + lease + " was activated meanwhile"
	if lease == m.current.To {
		why = "replica " + lease + " is no longer to serve"
	}
	return m.on(event{kind: evOverruled, now: now, id: id, lease: lease, why: why})
}

// Loaded reports that the replica that comes has its weights and its lease.
func (m *Machine) Loaded(now time.Time, lease string, load Load) []Effect {
	return m.on(event{kind: evLoaded, now: now, lease: lease, load: load})
}

// Serves reports that the replica that comes serves.
func (m *Machine) Serves(now time.Time, lease string, start Start) []Effect {
	return m.on(event{kind: evServes, now: now, lease: lease, start: start})
}

// Failed reports that the replica that comes will not serve, and why.
func (m *Machine) Failed(now time.Time, lease, why string) []Effect {
	return m.on(event{kind: evFailed, now: now, lease: lease, why: why})
}

// Deadline reports the end of the time that SetDeadline asked for.
func (m *Machine) Deadline(now time.Time, number uint64) []Effect {
	return m.on(event{kind: evDeadline, now: now, number: number, why: "the time of the switch is over"})
}

// Status returns the switch in progress. Its phase is Serving if there is none.
func (m *Machine) Status() Status {
	c := &m.current
	s := Status{ID: c.ID, To: c.To, Phase: m.phase, Entered: c.entered}
	switch m.phase {
	case Draining:
		s.Waits = slices.Clone(c.serving)
	case Freeing:
		s.Waits = slices.Clone(c.holding)
	case Loading, Capturing:
		s.Waits = []string{c.To}
	}
	return s
}

func without(list []string, one string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == one })
}

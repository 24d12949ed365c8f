package quarantine

import (
	"slices"
	"time"

	"troupe/core/health"
)

const (
	observeInterval = time.Second
	// testInterval is the time between self-tests of a lost device, or of one that hung. Devices with
	// other faults wait for the operator: a self-test cannot tell whether such a fault is gone.
	testInterval = 30 * time.Second
	maxNotes     = 16
)

// Machine decides whether a device is quarantined. It is not safe for concurrent use.
type Machine struct {
	state State
	test  Test

	suspicion    Suspicion
	suspectedFor string // in Suspected

	current Quarantine // unset in Healthy
	number  uint64     // number of the current or last quarantine
	last    *health.Observation
	lastAt  time.Time // time of the last observation
	notes   []Note

	tested   uint64    // number of the quarantine in which the last self-test started
	lastTest time.Time // start of the last self-test, or of the quarantine
	waiting  []Request // release requests that wait

	effects []Effect // of the current event
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind     Event
	now      time.Time
	cause    health.Cause
	detail   string
	request  Request
	untested bool
	empty    bool // no model uses the memory of the device
}

func (e event) isLoss() bool { return e.cause == health.Lost }

// New returns the machine of a healthy device that was never observed. Its first event must be
// Start.
func New() *Machine { return &Machine{} }

// Start begins an incarnation of the actor. The self-test that its predecessor had in flight is
// lost, and so are the requests that wait for it. observed reports whether the device can be
// observed.
func (m *Machine) Start(observed bool) []Effect {
	m.test, m.lastTest, m.waiting, m.effects = Idle, time.Time{}, nil, nil
	if observed {
		m.emit(Observe{})
	}
	return m.take()
}

// Observed reports an observation of the device, and whether no model uses its memory.
func (m *Machine) Observed(seen health.Observation, empty bool, now time.Time) []Effect {
	m.emit(Observe{observeInterval})
	fault, notes := health.Judge(m.last, seen)
	m.last, m.lastAt = &seen, now
	for _, n := range notes {
		m.note(n, now)
	}
	if fault.Cause != health.None {
		m.fire(event{kind: Fault, cause: fault.Cause, detail: fault.Detail, now: now})
	}
	m.doubt(event{kind: Observed, now: now})
	m.fire(event{kind: Observed, empty: empty, now: now})
	return m.take()
}

// NotObserved reports that an observation failed.
func (m *Machine) NotObserved() []Effect { return []Effect{Observe{observeInterval}} }

// DeviceLost reports that work on the device failed because it is lost.
func (m *Machine) DeviceLost(detail string, now time.Time) []Effect {
	m.fire(event{kind: Fault, cause: health.Lost, detail: "device lost: " + detail, now: now})
	return m.take()
}

// Quarantine quarantines the device at the request of an operator.
func (m *Machine) Quarantine(r Request, detail string, now time.Time) []Effect {
	why := "by operator request"
	if detail != "" {
		why += ": " + detail
	}
	m.fire(event{kind: Fault, cause: health.Operator, detail: why, now: now})
	m.emit(AnswerQuarantine{r})
	return m.take()
}

// Release ends the quarantine: at once if untested is set, otherwise once the device has passed a
// self-test.
func (m *Machine) Release(r Request, untested, empty bool, now time.Time) []Effect {
	m.fire(event{kind: Release, request: r, untested: untested, empty: empty, now: now})
	return m.take()
}

// Tested reports the end of the self-test; fault is empty if the device passed.
func (m *Machine) Tested(fault string, now time.Time) []Effect {
	e := event{kind: Passed, detail: fault, now: now}
	if fault != "" {
		e.kind = Failed
	}
	if !m.shiftTest(ended) {
		m.emit(Ignored{m.state, e.kind, "no self-test runs"})
		return m.take()
	}
	m.fire(e)
	m.doubt(e)
	return m.take()
}

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Current returns the quarantine. ok is false if there is none.
func (m *Machine) Current() (q Quarantine, ok bool) {
	if m.state == Healthy {
		return Quarantine{}, false
	}
	return m.current, true
}

// Observation returns the last observation and its time. ok is false before the first one.
func (m *Machine) Observation() (o health.Observation, at time.Time, ok bool) {
	if m.last == nil {
		return health.Observation{}, time.Time{}, false
	}
	return *m.last, m.lastAt, true
}

// Notes returns the last unusual observations, oldest first.
func (m *Machine) Notes() []Note { return slices.Clone(m.notes) }

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// take returns the effects of the event.
func (m *Machine) take() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

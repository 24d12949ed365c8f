package session

import "cmp"

func (m *Machine) expired(e event) bool {
	return !m.cfg.Deadline.IsZero() && !e.now.Before(m.cfg.Deadline)
}

// relay ends the session with the refusal that it received.
func (m *Machine) relay(event) {
	m.emit(Relay{})
	m.end()
}

func (m *Machine) expire(e event) {
	detail := "the request's time is up; raise its timeout, or lower max_tokens"
	if why := cmp.Or(m.waiting, m.cause); why != "" && m.state != Serving {
		detail = "the request's time is up while it waited for a replica: " + why
	}
	m.emit(Fail{DeadlinePassed, detail})
	m.closed(e)
}

func (m *Machine) failRepeated(e event) {
	m.emit(Fail{EngineFailed, "the replica failed repeatedly while it served this request: " + e.refusal.Detail})
	m.end()
}

// closed ends the session while the replica may still run the sequence, or the router keeps its
// place.
func (m *Machine) closed(event) {
	switch {
	case m.replica != (Replica{}):
		m.emit(Cancel{m.replica.Actor, SessionEnded})
	case m.state == Waiting:
		m.emit(Withdraw{})
	}
	m.end()
}

func (m *Machine) end() {
	m.cancelOther()
	m.emit(End{})
}

func (m *Machine) release(event) {
	m.detach()
	m.emit(StopTimer{})
}

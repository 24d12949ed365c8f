package session

func (m *Machine) gap(e event) bool { return e.tokens.First > m.seen }

func (m *Machine) finished(e event) bool { return e.tokens.Finished }

// deliver gives the client the tokens that it lacks.
func (m *Machine) deliver(e event) {
	m.track(e)
	last := e.tokens.First + e.tokens.Count
	if last > m.seen {
		m.interruptions, m.faults, m.avoid = 0, 0, nil
	}
	if last > m.seen || e.tokens.Finished { // a single Deliver wakes the client once
		m.emit(Deliver{Skip: min(m.seen, last) - e.tokens.First})
		m.seen = max(m.seen, last)
	}
}

func (m *Machine) finishOwn(e event) {
	m.deliver(e)
	m.end()
}

// finishOther ends the session when another replica than the assigned one finished the sequence.
func (m *Machine) finishOther(e event) {
	m.deliver(e)
	m.closed(e)
}

// tokensMissing requests a route again after tokens were lost. The replica repeats them on Submit.
func (m *Machine) tokensMissing(e event) {
	m.track(e)
	m.cause = "tokens were lost in transit"
	m.route(e)
}

// track records the sender of tokens. A sender other than the assigned replica may be taking over:
// its first token can arrive before Moved. If both keep sending, Moved was lost, and the other
// replica is cancelled.
func (m *Machine) track(e event) {
	m.hear(e)
	switch {
	case m.own(e):
		if e.now.Sub(m.otherSince) > checkInterval {
			m.cancelOther()
		}
	case e.from != m.other:
		m.cancelOther()
		m.other, m.otherSince = e.from, e.now
	}
}

func (m *Machine) cancelOther() {
	if m.other != (Actor{}) {
		m.emit(Cancel{m.other, Duplicate})
		m.other = Actor{}
	}
}

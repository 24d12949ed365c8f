package router

import "time"

// fireContact applies an event to the contact state of a peer.
func (m *Machine) fireContact(e event) {
	was := e.peer.contact
	fire(m, contactTable, &e.peer.contact, e)
	if e.peer.contact != was {
		m.updateAvoided()
	}
}

// meet records the first message from a peer on a new connection.
func (m *Machine) meet(e event) {
	m.emit(Watch{e.peer.router})
	m.hear(e)
}

func (m *Machine) hear(e event) {
	e.peer.heardAt = e.now
	if at := e.now.Add(silenceTimeout); m.silentAt.IsZero() || at.Before(m.silentAt) {
		m.silentAt = at
	}
}

func (m *Machine) longSilent(e event) bool { return e.now.Sub(e.peer.heardAt) >= silenceTimeout }

func (m *Machine) lateOnly(e event) bool { return !m.longSilent(e) }

// age finds the peers that have become silent. Most calls return before looking at any peer.
func (m *Machine) age(now time.Time) {
	if m.silentAt.IsZero() || now.Before(m.silentAt) {
		return
	}
	m.silentAt = time.Time{}
	for _, name := range sorted(m.peers) {
		p := m.peers[name]
		m.fireContact(event{kind: Aged, now: now, peer: p})
		if at := p.heardAt.Add(silenceTimeout); p.contact == Heard && (m.silentAt.IsZero() || at.Before(m.silentAt)) {
			m.silentAt = at
		}
	}
}

// credit deducts a stall of this router from the silence of its peers, because the router could not
// have received their messages.
func (m *Machine) credit(stall time.Duration, now time.Time) {
	for _, name := range sorted(m.peers) {
		p := m.peers[name]
		p.heardAt = p.heardAt.Add(stall)
		m.fireContact(event{kind: Credited, now: now, peer: p})
	}
	m.silentAt = now // the next call of age computes the next time
}

// updateAvoided updates the set of nodes whose replicas serve only if no others can: nodes that are
// leaving and nodes that are not heard from. A silent replica on a live node is busy; rerouting its
// sequences would only add load.
func (m *Machine) updateAvoided() {
	clear(m.avoid)
	for node, leaving := range m.leaving {
		if leaving {
			m.avoid[node] = true
		}
	}
	for node, p := range m.peers {
		if p.contact != Heard {
			m.avoid[node] = true
		}
	}
}

// silent reports whether a node is not heard from. This node itself is never silent.
func (m *Machine) silent(node string) bool {
	p := m.peers[node]
	return p != nil && p.contact != Heard
}

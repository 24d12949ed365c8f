package router

import "time"

// peer is the router of another node.
type peer struct {
	name    string
	id      string // id of the peer's process
	router  Actor
	sync    Sync
	contact Contact

	incarnation uint64    // newest known incarnation of the peer's router
	sequence    uint64    // number of the last announcement that was applied; unused in Syncing
	asked       time.Time // time of the last request for a snapshot; zero: never
	heardAt     time.Time // in Heard and Silent: when the peer was last heard; stalls of this router do not count
	sessions    int       // open calls of the peer's gateway
	demand      bool      // the caller keeps the demand at the peer's gateway
}

// Members handles the current members of the cluster.
func (m *Machine) Members(all []Member, now time.Time) []Effect {
	alive := make(map[string]bool)
	m.leaving = make(map[string]bool)
	clear(m.groups)
	for _, member := range all {
		m.groups[member.Name] = member.Deployments
		m.leaving[member.Name] = member.Leaving
		if member.Name == m.node {
			continue
		}
		alive[member.Name] = true
		p := m.peers[member.Name]
		if p == nil {
			p = &peer{name: member.Name}
			m.peers[member.Name] = p
		}
		joined := event{kind: Joined, now: now, peer: p, member: member}
		m.fireContact(joined)
		fire(m, syncTable, &p.sync, joined)
	}
	for _, name := range sorted(m.peers) {
		if p := m.peers[name]; !alive[name] {
			fire(m, syncTable, &p.sync, event{kind: Left, now: now, peer: p})
		}
		if m.peers[name].sync == Absent {
			delete(m.peers, name)
		}
	}
	m.updateAvoided()
	m.advance(Changed)
	return m.settle(now)
}

// Announced handles the announcement of another router.
func (m *Machine) Announced(a Announcement, now time.Time) []Effect {
	p := m.peers[a.Node]
	if p == nil {
		p = &peer{name: a.Node}
	} else {
		m.fireContact(event{kind: Announced, now: now, peer: p})
	}
	if fire(m, syncTable, &p.sync, event{kind: Announced, now: now, peer: p, news: &a}) {
		m.advance(Changed)
	}
	return m.settle(now)
}

// Lost handles the end of a replica of this node, or the loss of the connection to another node.
func (m *Machine) Lost(who Actor, now time.Time) []Effect {
	for _, name := range sorted(m.peers) {
		if p := m.peers[name]; p.router == who {
			m.fireContact(event{kind: Lost, now: now, peer: p})
			return m.take()
		}
	}
	m.replicaEnded(who)
	return m.take()
}

// Sessions returns the number of open calls of the other nodes' gateways.
func (m *Machine) Sessions() map[string]int {
	all := make(map[string]int, len(m.peers))
	for name, p := range m.peers {
		all[name] = p.sessions
	}
	return all
}

func (m *Machine) anotherProcess(e event) bool { return e.peer.id != e.member.ID }

func (m *Machine) earlierLife(e event) bool { return e.news.Incarnation < e.peer.incarnation }

func (m *Machine) laterLife(e event) bool { return e.news.Incarnation > e.peer.incarnation }

// newSnapshot reports whether an announcement is a snapshot that was not applied yet. One with the number
// of the last announcement was asked for because of its replicas.
func (m *Machine) newSnapshot(e event) bool {
	return e.news.Snapshot && (m.laterLife(e) || e.peer.sync == Syncing || !m.applied(e) ||
		e.news.Sequence == e.peer.sequence && m.lacksBlocks(e.peer.name))
}

func (m *Machine) applied(e event) bool { return e.news.Sequence <= e.peer.sequence }

func (m *Machine) nextDelta(e event) bool { return e.news.Sequence == e.peer.sequence+1 }

// greet starts following a process of a node.
func (m *Machine) greet(e event) {
	*e.peer = peer{
		name: e.peer.name, id: e.member.ID, router: e.member.Router, sync: e.peer.sync, contact: e.peer.contact,
	}
	m.emit(SendSnapshot{e.peer.router})
	m.requestSnapshot(e)
}

// replace starts following another process of a node.
func (m *Machine) replace(e event) {
	m.forgetNode(e.peer.name)
	m.greet(e)
}

func (m *Machine) forgetPeer(e event) { m.forgetNode(e.peer.name) }

// requestSnapshot requests a snapshot from a peer, at most once per snapshotRetryInterval.
func (m *Machine) requestSnapshot(e event) {
	if e.now.Sub(e.peer.asked) >= snapshotRetryInterval {
		e.peer.asked = e.now
		m.emit(AskSnapshot{e.peer.router})
	}
}

// restart waits for a snapshot, since a peer's router has restarted.
func (m *Machine) restart(e event) {
	e.peer.incarnation = e.news.Incarnation
	m.requestSnapshot(e)
}

// adopt replaces the view of a node with a snapshot.
func (m *Machine) adopt(e event) {
	m.forgetNode(e.peer.name)
	m.follow(e)
}

// follow applies an announcement that is not a snapshot.
func (m *Machine) follow(e event) {
	a := e.news
	e.peer.incarnation, e.peer.sequence, e.peer.sessions = a.Incarnation, a.Sequence, a.Sessions
	if a.Demand {
		e.peer.demand = true
		m.emit(KeepDemand{a.Node})
	}
	var partial bool
	for i, r := range a.Replicas {
		partial = m.applyReplica(a.Node, r, i) || partial
	}
	for _, t := range a.Tiers {
		m.applyTier(a.Node, t)
	}
	for _, name := range a.Gone {
		m.removeReplica(a.Node, name)
	}
	for i, s := range a.Statuses {
		if s.Term >= m.statuses[s.Deployment].Term {
			m.keepStatus(s, i)
		}
	}
	for _, name := range a.Withdrawn {
		m.dropStatus(a.Node, name)
	}
	if partial {
		m.requestSnapshot(e)
	}
}

// forgetNode drops the demand, replicas, statuses and tiers of a node.
func (m *Machine) forgetNode(node string) {
	if p := m.peers[node]; p != nil && p.demand {
		p.demand = false
		m.emit(DropDemand{node})
	}
	for _, model := range sorted(m.models) {
		t := m.models[model]
		for _, name := range sorted(t.replicas) {
			if t.replicas[name].node == node {
				m.drop(model, name)
			}
		}
	}
	for _, name := range sorted(m.statuses) {
		m.dropStatus(node, name)
	}
	m.forgetTiers(node)
}

package router

import "time"

// Start handles the start of the actor with the current members.
func (m *Machine) Start(members []Member, now time.Time) []Effect {
	return append(m.Members(members, now), m.Tick(now)...)
}

// Tick handles the end of a FlushInterval: it announces the changes to the peers.
func (m *Machine) Tick(now time.Time) []Effect {
	if late := now.Sub(m.flushDue); !m.flushDue.IsZero() && late > 0 {
		m.credit(late, now)
	}
	m.age(now)
	m.queue(m.waiting.Tick(now), now)
	m.flushDue = now.Add(FlushInterval)
	m.idle++
	if m.shared+len(m.gone)+len(m.withdrawn) == 0 && m.idle < heartbeatFlushes {
		return m.settle(now)
	}
	m.sequence++
	e := Announce{Sequence: m.sequence, Gone: m.gone, Withdrawn: m.withdrawn}
	for _, name := range sorted(m.peers) {
		e.To = append(e.To, m.peers[name].router)
	}
	m.idle, m.shared, m.gone, m.withdrawn = 0, 0, nil, nil
	m.emit(e)
	return m.settle(now)
}

// share adds the report, status or demand of the event to the next announcement.
func (m *Machine) share() {
	m.shared++
	m.emit(Share{})
}

// DemandReported handles a report about the demand at this node's gateway.
func (m *Machine) DemandReported() []Effect {
	m.emit(KeepDemand{m.node})
	m.share()
	return m.take()
}

// Snapshot is the state of this node as of the last announcement. The next announcement may repeat
// changes that are already in the snapshot, which is harmless.
type Snapshot struct {
	Sequence uint64
	Replicas []ReplicaBlocks // whose reports the caller keeps
	Tiers    []TierReport
	Statuses []string // deployments whose status the caller keeps
}

// ReplicaBlocks lists the blocks of a replica.
type ReplicaBlocks struct {
	Model, Name string
	Blocks      []uint64
}

// Snapshot returns the snapshot for a peer.
func (m *Machine) Snapshot() Snapshot {
	s := Snapshot{Sequence: m.sequence, Tiers: m.localTiers()}
	for _, model := range sorted(m.models) {
		t := m.models[model]
		for _, name := range sorted(t.replicas) {
			if t.replicas[name].node == m.node {
				held := t.routes.BlocksOf(name)
				s.Replicas = append(s.Replicas, ReplicaBlocks{model, name, held[:min(len(held), snapshotBlocks)]})
			}
		}
	}
	for _, name := range sorted(m.statuses) {
		if m.statuses[name].Node == m.node {
			s.Statuses = append(s.Statuses, name)
		}
	}
	return s
}

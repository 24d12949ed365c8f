package router

import (
	"maps"
	"time"
)

// StatusReported handles the status of a deployment that this node leads.
func (m *Machine) StatusReported(s Status, now time.Time) []Effect {
	m.keepStatus(s, 0)
	m.withdrawn = remove(m.withdrawn, s.Deployment)
	m.share()
	return m.settle(now)
}

// Withdrawn handles the end of a deployment's actor on this node.
func (m *Machine) Withdrawn(deployment string) []Effect {
	if m.dropStatus(m.node, deployment) {
		m.withdrawn = append(m.withdrawn, deployment)
	}
	return m.take()
}

// keepStatus keeps the status number at of the event.
func (m *Machine) keepStatus(s Status, at int) {
	m.statuses[s.Deployment] = s
	m.emit(KeepStatus{s.Deployment, at})
}

// dropStatus drops the status of a deployment if it came from the node, and reports whether it did.
func (m *Machine) dropStatus(node, deployment string) bool {
	s, ok := m.statuses[deployment]
	if !ok || s.Node != node {
		return false
	}
	delete(m.statuses, deployment)
	m.emit(DropStatus{deployment})
	return true
}

// Stored handles a stored deployment.
func (m *Machine) Stored(s Stored, now time.Time) []Effect {
	if before := m.stored[s.Name]; s.Level != before.Level || !maps.Equal(s.Levels, before.Levels) {
		m.hold(s.Name)
	}
	m.stored[s.Name] = s
	m.emit(Store{})
	return m.settle(now)
}

// Deleted handles the deletion of a stored deployment.
func (m *Machine) Deleted(name string, now time.Time) []Effect {
	m.dropStored(name)
	return m.settle(now)
}

// StoreRead handles the end of the initial read of the store: there are no stored deployments but
// these.
func (m *Machine) StoreRead(names []string, now time.Time) []Effect {
	exist := make(map[string]bool, len(names))
	for _, name := range names {
		exist[name] = true
	}
	for _, name := range sorted(m.stored) {
		if !exist[name] {
			m.dropStored(name)
		}
	}
	m.advance(StoreRead)
	return m.settle(now)
}

func (m *Machine) dropStored(name string) {
	delete(m.stored, name)
	m.emit(DropStored{name})
}

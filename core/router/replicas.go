package router

import (
	"slices"
	"time"

	"troupe/core/route"
)

// model is the routing state of one model.
type model struct {
	routes      *route.Routes
	replicas    map[string]replica // by name
	blockTokens int                // block size of all replicas of the model; 0: not reported yet
}

// replica is the part of a replica's last report that routing needs.
type replica struct {
	node        string
	actor       Actor
	incarnation uint64
	state       route.State
	partial     bool // it has reported blocks that the router does not know
}

// Reported handles the report of a replica of this node.
func (m *Machine) Reported(r Report, now time.Time) []Effect {
	if m.local[r.Name] != r.Actor {
		m.local[r.Name] = r.Actor
		m.emit(Watch{r.Actor})
	}
	if m.applyReplica(m.node, r, 0) {
		m.emit(AskBlocks{r.Actor})
	}
	if r.State == route.Serving || r.State == route.Suspended {
		m.emit(CorrectAdapters{r.Actor})
	}
	m.gone = remove(m.gone, r.Name)
	m.share()
	return m.settle(now)
}

// replicaEnded drops the replica of this node whose actor has ended. Its end is announced even if
// another node serves a replica of its name.
func (m *Machine) replicaEnded(who Actor) {
	for _, name := range sorted(m.local) {
		if m.local[name].ID == who.ID {
			delete(m.local, name)
			m.removeReplica(m.node, name)
			m.gone = append(m.gone, name)
		}
	}
}

// applyReplica applies the report number at of the event, and reports whether the replica has blocks that
// are not known, so that all of them have to be asked for. If two nodes report a replica of this name,
// because the name was reused while one of the nodes was away, the serving replica counts. The blocks that
// the other one reports meanwhile are not kept.
func (m *Machine) applyReplica(node string, r Report, at int) (partial bool) {
	t := m.models[r.Model]
	if t == nil {
		t = &model{routes: route.NewRoutes(), replicas: make(map[string]replica)}
		m.models[r.Model] = t
	}
	have, ok := t.replicas[r.Name]
	if ok && have.node != node {
		if r.State != route.Serving && have.state == route.Serving {
			return false
		}
		t.routes.Remove(r.Name)
	}
	// The first report of a replica is a snapshot.
	partial = !r.Snapshot && (have.node != node || have.partial)
	t.replicas[r.Name] = replica{node, r.Actor, r.Incarnation, r.State, partial}
	if r.BlockTokens > 0 {
		t.blockTokens = r.BlockTokens
	}
	r.Replica.Node = node
	t.routes.Update(r.Replica)
	if r.Snapshot {
		t.routes.ResetBlocks(r.Name, r.Committed)
	} else {
		t.routes.UpdateBlocks(r.Name, r.Evicted, r.Committed)
	}
	m.emit(KeepReplica{r.Model, r.Name, at})
	return partial
}

// lacksBlocks reports whether a replica on a node has reported blocks that are not known.
func (m *Machine) lacksBlocks(node string) bool {
	for _, t := range m.models {
		for _, r := range t.replicas {
			if r.node == node && r.partial {
				return true
			}
		}
	}
	return false
}

// removeReplica drops a replica that has ended on a node.
func (m *Machine) removeReplica(node, name string) {
	for _, model := range sorted(m.models) {
		if r, ok := m.models[model].replicas[name]; ok && r.node == node {
			m.drop(model, name)
		}
	}
}

func (m *Machine) drop(model, name string) {
	t := m.models[model]
	delete(t.replicas, name)
	t.routes.Remove(name)
	m.emit(DropReplica{model, name})
}

// remove returns names without the given name.
func remove(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}

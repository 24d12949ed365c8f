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
}

// Reported handles the report of a replica of this node.
func (m *Machine) Reported(r Report, now time.Time) []Effect {
	if m.local[r.Name] != r.Actor {
		m.local[r.Name] = r.Actor
		m.emit(Watch{r.Actor})
	}
	m.applyReplica(m.node, r, 0)
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

// applyReplica applies the report number at of the event. If two nodes report a replica of this
// name, because the name was reused while one of the nodes was away, the serving replica counts.
func (m *Machine) applyReplica(node string, r Report, at int) {
	t := m.models[r.Model]
	if t == nil {
		t = &model{routes: route.NewRoutes(), replicas: make(map[string]replica)}
		m.models[r.Model] = t
	}
	if have, ok := t.replicas[r.Name]; ok && have.node != node {
		if r.State != route.Serving && have.state == route.Serving {
			return
		}
		t.routes.Remove(r.Name)
	}
	t.replicas[r.Name] = replica{node, r.Actor, r.Incarnation, r.State}
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

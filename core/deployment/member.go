package deployment

import (
	"cmp"
	"slices"
	"time"
)

// Member is a live member of the cluster.
type Member struct {
	Name        string
	ID          string // of its process
	Schedulable bool   // it is up and not draining
	Leaving     bool   // it is shutting down
	GPUs        []string
}

// Running is a replica that runs on a node.
type Running struct {
	Replica string
	Spec    ReplicaSpec
	Actor   Ref
}

// member is the deployment's view of a live member.
type member struct {
	Member
	reported bool // its list of replicas has arrived
	since    time.Time
}

// onMembers updates the members. A node that joins is asked for its replicas; the replicas of one
// that left are lost.
func (d *Deployment) onMembers(e Members, now time.Time) {
	alive := make(map[string]bool)
	for _, m := range e.Members {
		alive[m.Name] = true
		n := d.nodes[m.Name]
		if n != nil && n.ID != m.ID { // a new process, without the replicas
			d.loseNode(m.Name, now)
			n = nil
		}
		if n == nil {
			n = &member{since: now}
			d.nodes[m.Name] = n
			d.expectRoom()
		}
		n.Member = m
		d.queryNode(m.Name)
	}
	for _, name := range sorted(d.nodes) {
		if !alive[name] {
			d.loseNode(name, now)
			delete(d.nodes, name)
		}
	}
	d.onDeparted(e.Departed)
	d.reconcile(now)
}

// schedulable reports whether replicas may be placed on a node.
func (d *Deployment) schedulable(node string) bool {
	n := d.nodes[node]
	return n != nil && n.Schedulable
}

// queryNode asks a node for its replicas, and announces the new leader to them.
func (d *Deployment) queryNode(name string) {
	if !d.nodes[name].reported {
		d.emit(ListReplicas{name})
	}
}

// allNodesReported reports whether every node has sent its replicas, and every adopted replica its
// status, or timed out.
func (d *Deployment) allNodesReported(now time.Time) bool {
	for _, r := range d.replicas {
		if r.adopted && r.report == nil && now.Sub(r.since) < nodeReplyTimeout {
			return false
		}
	}
	for _, n := range d.nodes {
		if !n.reported && now.Sub(n.since) < nodeReplyTimeout {
			return false
		}
	}
	return len(d.nodes) > 0
}

// loseNode drops the replicas of a node.
func (d *Deployment) loseNode(node string, now time.Time) {
	for _, name := range sorted(d.replicas) {
		if r := d.replicas[name]; r.spec.At.Node == node && d.fire(r, nodeLost, none, now) {
			d.emit(Lost{name, node})
			if p := r.preemption; p != nil {
				d.tellPreemption(p, r, p.machine.Gone("node "+node+" was lost", now), now)
			}
		}
	}
	for name, at := range d.lastPlacement {
		if at.Node == node {
			delete(d.lastPlacement, name)
		}
	}
	for o := range d.orphans {
		if o.node == node {
			delete(d.orphans, o)
		}
	}
}

// onReplicaList adopts the replicas that an earlier term or incarnation started.
func (d *Deployment) onReplicaList(e ReplicaList, now time.Time) {
	n := d.nodes[e.Node]
	if n == nil || n.reported {
		return // the node has left, or this answer is repeated
	}
	n.reported = true
	for _, running := range e.Replicas {
		name := running.Replica
		if existing := d.replicas[name]; existing != nil {
			if existing.spec.At.Node != e.Node { // the name was reused while this node was away
				d.orphans[orphan{e.Node, name}] = running.Spec.At
			}
			continue
		}
		r := d.add(name, running.Spec)
		r.adopted, r.actor = true, running.Actor
		d.emit(Watch{r.actor})
		d.fire(r, adopted, none, now)
	}
	d.stopOrphans()
	d.reconcile(now)
}

func (d *Deployment) stopOrphans() {
	for _, name := range sorted(d.nodes) {
		for _, o := range d.orphansOf(name) {
			at := Location{o.node, d.orphans[o].GPU}
			d.emit(StopReplica{Request: o.node + "/" + o.replica, Replica: o.replica, At: at,
				Weights: d.fateOfOrphan(o)})
		}
	}
}

func (d *Deployment) orphansOf(node string) (all []orphan) {
	for o := range d.orphans {
		if o.node == node {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b orphan) int { return cmp.Compare(a.replica, b.replica) })
	return all
}

package simulate

import (
	"time"

	core "troupe/core/replica"
	"troupe/core/router"
)

// runs reports whether the processes of the node run, even if nothing is heard from it.
func (n *node) runs() bool { return !n.lost || n.cut }

// cutOff reports whether nothing that the replica sends is received, and nothing that is sent to it.
func (r *replica) cutOff() bool { return r.device.node.cut }

// cutOff cuts the node off from the others. Its replicas go on. The sessions of their sequences notice the silence,
// then the router, and then the deployments and the replicas themselves, whose connections are broken by then.
func (n *node) cutOff() {
	s := n.sim
	if n.lost {
		return
	}
	for _, r := range n.replicas() {
		r.halt()
	}
	n.lost, n.cut, n.seen = true, true, s.key.at
	cut := n.network.cut
	lasts := func() bool { return n.cut && n.network.cut == cut }
	for _, r := range n.replicas() {
		r.told = told{}
		r.severed = nil
		for _, q := range r.assigned() {
			r.severed = append(r.severed, q.id)
			q.strand(r)
		}
	}
	s.after(nodeSilentAfter, func() {
		if lasts() {
			for _, r := range n.replicas() {
				s.performRouter(s.router.Lost(router.Actor(r.address()), s.key.at))
			}
		}
	})
	s.after(nodeGoneAfter, func() {
		if !lasts() {
			return
		}
		n.gone = true
		s.tellMembers()
		for _, r := range n.replicas() {
			r.losePeer(func(other *node) bool { return other != n })
			r.dropAll()
		}
		for _, r := range s.others(n) {
			r.losePeer(func(other *node) bool { return other == n })
		}
	})
}

// replicas returns the replicas of the node, by device.
func (n *node) replicas() (all []*replica) {
	for _, d := range n.devices {
		all = append(all, d.replicas...)
	}
	return all
}

// others returns the replicas of the other nodes, by device.
func (s *simulation) others(than *node) (all []*replica) {
	for _, n := range s.nodeOrder {
		if n != than {
			all = append(all, n.replicas()...)
		}
	}
	return all
}

// dropAll drops the sequences of a replica that no longer hears from their sessions.
func (r *replica) dropAll() {
	r.touch()
	for _, id := range r.severed {
		r.perform(r.machine.Lost(id), r.sim.key.at)
	}
	r.perform([]core.Effect{core.Advance{}}, r.sim.key.at)
}

// reconnect ends the cut of the node's network. Its replicas report again, and the sessions that still wait for one of
// them learn what it has. If the others have noticed the loss of the node, it joins as a new member.
func (n *node) reconnect() {
	s := n.sim
	if !n.cut {
		return
	}
	n.lost, n.cut = false, false
	for _, r := range n.replicas() {
		r.reconnect(s.key.at)
	}
	if n.gone {
		n.gone = false
		n.life++
		s.tellMembers()
		return
	}
	n.announceAll() // the router may have missed changes
}

func (r *replica) reconnect(now time.Time) {
	r.touch()
	r.perform(r.machine.AnnounceAll(now), now)
	r.publish()
	for _, id := range r.severed { // those whose sessions have another replica now
		if q := r.sim.requests[id]; q == nil || q.replica != r {
			r.perform(r.machine.Cancel(id), now)
		}
	}
	for _, q := range r.assigned() {
		known, effects := r.machine.Query(q.id)
		r.perform(effects, now)
		q.perform(q.machine.Status(r.session(), known.State != "", known.Output, now))
	}
}

// reattached gives the session the tokens that it has missed.
func (q *request) reattached(e core.Reattach, now time.Time) {
	if q.emitted == 0 && len(e.Tokens) > 0 {
		q.first = now
	}
	q.emitted = e.First + len(e.Tokens)
}

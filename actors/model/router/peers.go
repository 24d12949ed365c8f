package router

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/route"
	"troupe/messages"
)

// onMembers forgets the nodes that have left, and tells those that are new what there is here.
func (r *router) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	living := make(map[string]bool)
	r.leaving = make(map[string]bool)
	for _, m := range msg.GetMembers() {
		r.leaving[m.GetName()] = m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING
		if m.GetName() == r.Node {
			continue
		}
		living[m.GetName()] = true
		if p := r.peers[m.GetName()]; p == nil || p.member.GetId() != m.GetId() {
			r.forget(m.GetName())
			p = &peer{member: m, pid: r.Peer(m)}
			r.peers[m.GetName()] = p
			ctx.Send(p.pid, r.snapshot(ctx))
			r.ask(ctx, p)
		}
	}
	for node := range r.peers {
		if !living[node] {
			r.forget(node)
			delete(r.peers, node)
		}
	}
	r.inform()
}

// inform says so when nothing is missing any more of what others know. What is news from then on comes as to everybody.
func (r *router) inform() {
	if r.whole || !r.synced {
		return
	}
	for _, p := range r.peers {
		if !p.feed.Synced() {
			return
		}
	}
	r.whole = true
	r.Informed()
}

// mute reports whether nothing comes from a node any more. That of which nothing is known, as of the own one, is not.
func (p *peer) mute() bool { return p != nil && time.Since(p.heard) >= silentAfter }

// stoodStill says for how long this node, or its router, has heard nobody: that does not count as silence of others.
func (r *router) stoodStill(d time.Duration) {
	for _, p := range r.peers {
		p.heard = p.heard.Add(d)
	}
}

// forget drops what was on a node.
func (r *router) forget(node string) {
	for _, t := range r.models {
		for name, m := range t.replicas {
			if m.node == node {
				t.remove(name)
			}
		}
	}
	for name, s := range r.led {
		if s.GetNode() == node {
			delete(r.led, name)
		}
	}
	r.forgetTiers(node)
}

// ask asks a peer for a snapshot, unless it was asked a moment ago.
func (r *router) ask(ctx actor.Context, p *peer) {
	if time.Since(p.asked) >= askEvery {
		p.asked = time.Now()
		ctx.Request(p.pid, &messages.GetRoutes{Node: r.Node})
	}
}

// onPeer takes the word of another router. One that is no member yet, or no more, is not listened to.
func (r *router) onPeer(ctx actor.Context, msg *messages.RoutesAnnounced) {
	p := r.peers[msg.GetNode()]
	if p == nil {
		return
	}
	if !p.watched {
		ctx.Watch(p.pid)
	}
	p.heard, p.watched = time.Now(), true
	switch p.feed.Apply(msg.GetIncarnation(), msg.GetSequence(), msg.GetSnapshot()) {
	case route.DeltaResync:
		r.ask(ctx, p)
		return
	case route.DeltaIgnore:
		return
	}
	if msg.GetSnapshot() {
		r.forget(msg.GetNode())
	}
	p.sessions = msg.GetSessions()
	for _, a := range msg.GetReplicas() {
		r.adopt(msg.GetNode(), a)
	}
	for _, t := range msg.GetTiers() {
		r.adoptTier(msg.GetNode(), t)
	}
	for _, name := range msg.GetGone() {
		r.gone(msg.GetNode(), name)
	}
	for _, s := range msg.GetDeployments() {
		if s.GetTerm() >= r.led[s.GetSpec().GetName()].GetTerm() {
			r.led[s.GetSpec().GetName()] = s
		}
	}
	for _, name := range msg.GetWithdrawn() {
		if r.led[name].GetNode() == msg.GetNode() {
			delete(r.led, name)
		}
	}
	r.inform()
}

// snapshot is everything about this node, as of the last announcement; what is news since then comes with the next one, and does no
// harm twice.
func (r *router) snapshot(ctx actor.Context) *messages.RoutesAnnounced {
	all := r.blank(ctx)
	all.Sequence, all.Snapshot, all.Sessions = r.sequence, true, uint32(r.Sessions())
	for _, t := range r.models {
		for name, m := range t.replicas {
			if m.node == r.Node {
				held := t.routes.BlocksOf(name)
				all.Replicas = append(all.Replicas, &messages.ReplicaAnnounced{
					Status: m.status, Committed: held[:min(len(held), snapshotBlocks)], Snapshot: true,
				})
			}
		}
	}
	all.Tiers = r.tiersHere()
	for _, s := range r.led {
		if s.GetNode() == r.Node {
			all.Deployments = append(all.Deployments, s)
		}
	}
	return all
}

// adopt takes what is announced of a replica. Where two nodes have one of that name, because one of them was out while the name
// was given away, the one that serves is the one.
func (r *router) adopt(node string, a *messages.ReplicaAnnounced) {
	s := a.GetStatus()
	t := r.models[s.GetModel()]
	if t == nil {
		t = &table{route.NewRoutes(), make(map[string]*replica)}
		r.models[s.GetModel()] = t
	}
	name := s.GetName()
	if have := t.replicas[name]; have != nil && have.node != node {
		if stateOf(s) != route.Serving && stateOf(have.status) == route.Serving {
			return
		}
		t.remove(name)
	}
	t.replicas[name] = &replica{node, s}
	t.routes.Update(route.Replica{
		Name: name, Node: node, State: stateOf(s), Running: int(s.GetRunning()), Waiting: int(s.GetWaiting()),
		MaxSequences: int(s.GetMaxSequences()), StepTokens: int(s.GetStepTokens()), BlockTokens: int(s.GetBlockTokens()),
		KVBlocks: int(s.GetKvBlocks()), KVBlocksFree: int(s.GetKvBlocksFree()), Revision: s.GetRevisionDigest(),
		Adapters: residences(s.GetAdapters()),
	})
	if a.GetSnapshot() {
		t.routes.ResetBlocks(name, a.GetCommitted())
		return
	}
	t.routes.UpdateBlocks(name, a.GetEvicted(), a.GetCommitted())
}

// residences are where a replica has adapters. One that it still loads is on its way.
func residences(held []*messages.AdapterHeld) map[string]route.Residence {
	if len(held) == 0 {
		return nil
	}
	where := make(map[string]route.Residence, len(held))
	for _, h := range held {
		key := (&messages.AdapterSpec{Name: h.GetName(), Revision: h.GetRevision()}).Key()
		switch h.GetLocation() {
		case messages.AdapterLocation_ADAPTER_LOCATION_GPU:
			where[key] = route.OnGPU
		case messages.AdapterLocation_ADAPTER_LOCATION_DRAM:
			where[key] = route.InDRAM
		}
	}
	return where
}

func (r *router) gone(node, name string) {
	for _, t := range r.models {
		if m := t.replicas[name]; m != nil && m.node == node {
			t.remove(name)
		}
	}
}

func (t *table) remove(name string) {
	delete(t.replicas, name)
	t.routes.Remove(name)
}

func stateOf(s *messages.ReplicaStatus) route.State {
	switch s.GetState() {
	case messages.ReplicaState_REPLICA_STATE_SERVING:
		return route.Serving
	case messages.ReplicaState_REPLICA_STATE_DRAINING:
		return route.Draining
	case messages.ReplicaState_REPLICA_STATE_FAILED:
		return route.Failed
	}
	return route.Loading
}

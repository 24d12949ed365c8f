package router

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/route"
	"troupe/messages"
)

// onMembers drops the nodes that left, and exchanges snapshots with new ones.
func (r *router) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	alive := make(map[string]bool)
	r.leaving = make(map[string]bool)
	for _, m := range msg.GetMembers() {
		r.leaving[m.GetName()] = m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING
		if m.GetName() == r.Node {
			continue
		}
		alive[m.GetName()] = true
		if p := r.peers[m.GetName()]; p == nil || p.member.GetId() != m.GetId() {
			r.forgetNode(m.GetName())
			p = &peer{member: m, pid: r.Peer(m)}
			r.peers[m.GetName()] = p
			ctx.Send(p.pid, r.snapshot(ctx))
			r.requestSnapshot(ctx, p)
		}
	}
	for node := range r.peers {
		if !alive[node] {
			r.forgetNode(node)
			delete(r.peers, node)
		}
	}
	r.notifySynced()
}

// notifySynced calls OnSynced once the store and a snapshot of every peer have arrived. Later
// changes arrive as deltas.
func (r *router) notifySynced() {
	if r.syncedOnce || !r.storeSynced {
		return
	}
	for _, p := range r.peers {
		if !p.deltas.Synced() {
			return
		}
	}
	r.syncedOnce = true
	r.OnSynced()
}

// isSilent reports whether a node has sent nothing for silenceTimeout. A nil peer, such as this
// node, is not silent.
func (p *peer) isSilent() bool { return p != nil && time.Since(p.lastHeard) >= silenceTimeout }

// creditStall excludes a stall of this router from the silence of its peers: it could not have
// received their messages.
func (r *router) creditStall(d time.Duration) {
	for _, p := range r.peers {
		p.lastHeard = p.lastHeard.Add(d)
	}
}

// forgetNode drops the replicas, deployments and tiers of a node.
func (r *router) forgetNode(node string) {
	for _, t := range r.models {
		for name, m := range t.replicas {
			if m.node == node {
				t.remove(name)
			}
		}
	}
	for name, s := range r.deploymentStatus {
		if s.GetNode() == node {
			delete(r.deploymentStatus, name)
		}
	}
	r.forgetTiers(node)
}

// requestSnapshot requests a snapshot from a peer, at most once per snapshotRetryInterval.
func (r *router) requestSnapshot(ctx actor.Context, p *peer) {
	if time.Since(p.snapshotRequested) >= snapshotRetryInterval {
		p.snapshotRequested = time.Now()
		ctx.Request(p.pid, &messages.GetRoutes{Node: r.Node})
	}
}

// onRoutesAnnounced applies the announcement of another router. Those of nodes that are not members
// are ignored.
func (r *router) onRoutesAnnounced(ctx actor.Context, msg *messages.RoutesAnnounced) {
	p := r.peers[msg.GetNode()]
	if p == nil {
		return
	}
	if !p.watched {
		ctx.Watch(p.pid)
	}
	p.lastHeard, p.watched = time.Now(), true
	switch p.deltas.Apply(msg.GetIncarnation(), msg.GetSequence(), msg.GetSnapshot()) {
	case route.DeltaResync:
		r.requestSnapshot(ctx, p)
		return
	case route.DeltaIgnore:
		return
	}
	if msg.GetSnapshot() {
		r.forgetNode(msg.GetNode())
	}
	p.sessions = msg.GetSessions()
	for _, a := range msg.GetReplicas() {
		r.applyReplica(msg.GetNode(), a)
	}
	for _, t := range msg.GetTiers() {
		r.applyTier(msg.GetNode(), t)
	}
	for _, name := range msg.GetGone() {
		r.removeReplica(msg.GetNode(), name)
	}
	for _, s := range msg.GetDeployments() {
		if s.GetTerm() >= r.deploymentStatus[s.GetSpec().GetName()].GetTerm() {
			r.deploymentStatus[s.GetSpec().GetName()] = s
		}
	}
	for _, name := range msg.GetWithdrawn() {
		if r.deploymentStatus[name].GetNode() == msg.GetNode() {
			delete(r.deploymentStatus, name)
		}
	}
	r.notifySynced()
}

// snapshot returns the state of this node as of the last announcement. The next delta repeats
// changes that are already in it, which is harmless.
func (r *router) snapshot(ctx actor.Context) *messages.RoutesAnnounced {
	all := r.newDelta(ctx)
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
	all.Tiers = r.localTiers()
	for _, s := range r.deploymentStatus {
		if s.GetNode() == r.Node {
			all.Deployments = append(all.Deployments, s)
		}
	}
	return all
}

// applyReplica applies the announcement of a replica. If two nodes have a replica of this name,
// because it was reused while one of them was away, the serving one counts.
func (r *router) applyReplica(node string, a *messages.ReplicaAnnounced) {
	s := a.GetStatus()
	t := r.models[s.GetModel()]
	if t == nil {
		t = &modelRoutes{route.NewRoutes(), make(map[string]*replica)}
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
		MaxSequences: int(s.GetMaxSequences()), StepTokens: int(s.GetStepTokens()),
		BlockTokens: int(s.GetBlockTokens()),
		KVBlocks:    int(s.GetKvBlocks()), KVBlocksFree: int(s.GetKvBlocksFree()), Revision: s.GetRevisionDigest(),
		Adapters: residences(s.GetAdapters()),
	})
	if a.GetSnapshot() {
		t.routes.ResetBlocks(name, a.GetCommitted())
		return
	}
	t.routes.UpdateBlocks(name, a.GetEvicted(), a.GetCommitted())
}

// residences returns the tiers in which a replica holds its adapters, without those on disk. An
// adapter counts as on the GPU only once it is loaded.
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

func (r *router) removeReplica(node, name string) {
	for _, t := range r.models {
		if m := t.replicas[name]; m != nil && m.node == node {
			t.remove(name)
		}
	}
}

func (t *modelRoutes) remove(name string) {
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

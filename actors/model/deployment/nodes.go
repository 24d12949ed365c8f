package deployment

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// onMembers takes the members as they are now. A node that joins is asked what it has; what ran on one that left is lost.
func (d *deployment) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	living := make(map[string]bool)
	for _, m := range msg.GetMembers() {
		living[m.GetName()] = true
		n := d.nodes[m.GetName()]
		if n != nil && n.member.GetId() != m.GetId() { // it rejoined: another life, where nothing is known to be left
			d.loseNode(m.GetName())
			n = nil
		}
		if n == nil {
			n = &node{since: time.Now()}
			d.nodes[m.GetName()] = n
		}
		n.member, n.draining = m, slices.Contains(msg.GetDraining(), m.GetName())
		d.queryNode(ctx, n)
	}
	d.extendStable(stableFor)
	for name := range d.nodes {
		if !living[name] {
			d.loseNode(name)
			delete(d.nodes, name)
		}
	}
	d.reconcile(ctx)
}

// queryNode asks a node which replicas it has, and tells it whose they are now.
func (d *deployment) queryNode(ctx actor.Context, n *node) {
	if !n.reported {
		ctx.Request(d.Replicas(n.member), &messages.ListReplicas{
			RequestId: d.Name, Model: d.Name, Term: d.Term, Deployment: refOf(ctx.Self()),
		})
	}
}

// allNodesReported reports whether every node has said what it has, and what was adopted how it is, or had the time to.
func (d *deployment) allNodesReported() bool {
	for _, r := range d.replicas {
		if r.adopted && r.status == nil && time.Since(r.since) < nodeReplyTimeout {
			return false
		}
	}
	for _, n := range d.nodes {
		if !n.reported && time.Since(n.since) < nodeReplyTimeout {
			return false
		}
	}
	return len(d.nodes) > 0
}

// lose forgets what ran on a node.
func (d *deployment) loseNode(node string) {
	for name, r := range d.replicas {
		if r.spec.GetNode() == node {
			d.Log.Warn().Str("replica", name).Str("on", node).Msg("replica lost with its node")
			d.Publish("replica.lost", name, "its node "+node+" has left")
			delete(d.replicas, name)
			d.reservedNames[name] = true
		}
	}
	for name, home := range d.lastPlacement {
		if home.node == node {
			delete(d.lastPlacement, name)
		}
	}
	for s := range d.orphans {
		if s.node == node {
			delete(d.orphans, s)
		}
	}
}

// onReplicaList: what an earlier reign or incarnation started is adopted.
func (d *deployment) onReplicaList(ctx actor.Context, msg *messages.ListReplicasResult) {
	n := d.nodes[msg.GetNode()]
	if d.checkFenced(msg.GetRefused()) || n == nil || n.reported {
		return
	}
	n.reported = true
	for _, r := range msg.GetReplicas() {
		delete(d.reservedNames, r.GetReplica())
		if have := d.replicas[r.GetReplica()]; have != nil {
			if have.spec.GetNode() != msg.GetNode() { // the name was given away while this node was out
				d.orphans[location{msg.GetNode(), r.GetReplica()}] = r.GetSpec().GetGpu()
			}
			continue
		}
		c := &replicaState{spec: r.GetSpec(), phase: loading, since: time.Now(), pid: pidOf(r.GetActor()),
			adopted: true}
		d.replicas[r.GetReplica()] = c
		ctx.Watch(c.pid)
		d.resend(ctx, c)
	}
	d.stopOrphans(ctx)
	d.reconcile(ctx)
}

func (d *deployment) stopOrphans(ctx actor.Context) {
	for s, gpu := range d.orphans {
		if n := d.nodes[s.node]; n != nil {
			ctx.Request(d.Replicas(n.member), &messages.StopReplica{
				RequestId: s.node + "/" + s.name, Replica: s.name, Model: d.Name, Gpu: gpu, Term: d.Term,
			})
		}
	}
}

// checkFenced reports whether a command was checkFenced for good, because a later reign has begun. The group will stop this actor.
func (d *deployment) checkFenced(r *messages.Refused) bool {
	if r.GetReason() == messages.Reason_REASON_STALE_TERM && !d.fenced {
		d.fenced = true
		d.Log.Warn().Str("model", d.Name).Uint64("term", d.Term).Str("detail", r.GetDetail()).
			Msg("deployment deposed")
	}
	return d.fenced
}

// onTerminated: a replica that was to live is gone. Where its node is not, its lease still is there for the next one to adopt.
func (d *deployment) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	for name, r := range d.replicas {
		if !samePID(r.pid, msg.GetWho()) || r.phase == stopping {
			continue
		}
		d.Log.Warn().Str("replica", name).Str("why", msg.GetWhy().String()).Msg("replica gone")
		d.Publish("replica.lost", name, "it crashed too often, or its node was lost")
		if msg.GetWhy() == actor.TerminatedReason_AddressTerminated {
			d.requery(ctx, r)
			continue
		}
		d.onReplicaExit(ctx, r)
	}
	d.reconcile(ctx)
}

// onReplicaExit: a replica crashed too often, or found its device lost. It is started again at once where its lease is; where it ends there again
// soon, its lease is given back and its GPU left alone for a while.
func (d *deployment) onReplicaExit(ctx actor.Context, r *replicaState) {
	name, at, last := r.spec.GetName(), location{r.spec.GetNode(), r.spec.GetGpu()}, d.lastExit[r.spec.GetName()]
	d.lastExit[name] = time.Now()
	if d.isSubstitute(name) { // what it was to take over goes on where it is
		d.extendStable(moveBackoff)
		d.setPhase(ctx, r, stopping)
		return
	}
	if time.Since(last) > avoidAfterCrash {
		d.lastPlacement[name] = at
		delete(d.replicas, name)
		return
	}
	delete(d.lastPlacement, name)
	d.avoidUntil[at] = time.Now().Add(avoidAfterCrash)
	d.setFailure(&messages.Refused{
		Reason: messages.Reason_REASON_ENGINE_FAILED,
		Detail: "replica " + name + " ended twice within " + avoidAfterCrash.String() + " on " + at.node + "/" +
			at.name + ", which is left alone for as long; the log of its node says why",
	})
	d.setPhase(ctx, r, stopping)
}

// requery: the connection to a replica's node broke. Either the node has left, and the members will say so, or the replica is still
// there: then its node is asked again.
func (d *deployment) requery(ctx actor.Context, r *replicaState) {
	delete(d.replicas, r.spec.GetName())
	d.reservedNames[r.spec.GetName()] = true
	if n := d.nodes[r.spec.GetNode()]; n != nil {
		n.reported, n.since = false, time.Now()
		d.queryNode(ctx, n)
	}
}

func samePID(a, b *actor.PID) bool {
	return a != nil && b != nil && a.GetAddress() == b.GetAddress() && a.GetId() == b.GetId()
}

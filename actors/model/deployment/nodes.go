package deployment

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// onMembers updates the members. A node that joins is asked for its replicas; the replicas of one
// that left are lost.
func (d *deployment) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	alive := make(map[string]bool)
	for _, m := range msg.GetMembers() {
		alive[m.GetName()] = true
		n := d.nodes[m.GetName()]
		if n != nil && n.member.GetId() != m.GetId() { // a new process, without the replicas
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
		if !alive[name] {
			d.loseNode(name)
			delete(d.nodes, name)
		}
	}
	d.reconcile(ctx)
}

// queryNode asks a node for its replicas, and announces the new leader to them.
func (d *deployment) queryNode(ctx actor.Context, n *node) {
	if !n.reported {
		ctx.Request(d.Replicas(n.member), &messages.ListReplicas{
			RequestId: d.Name, Model: d.Name, Term: d.Term, Deployment: refOf(ctx.Self()),
		})
	}
}

// allNodesReported reports whether every node has sent its replicas, and every adopted replica its
// status, or timed out.
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

// loseNode drops the replicas of a node.
func (d *deployment) loseNode(node string) {
	for name, r := range d.replicas {
		if r.spec.GetNode() == node {
			d.Log.Warn().Str("replica", name).Str("on", node).Msg("replica lost with its node")
			d.Publish("replica.lost", name, "its node "+node+" has left")
			delete(d.replicas, name)
			d.reservedNames[name] = true
		}
	}
	for name, at := range d.lastPlacement {
		if at.node == node {
			delete(d.lastPlacement, name)
		}
	}
	for s := range d.orphans {
		if s.node == node {
			delete(d.orphans, s)
		}
	}
}

// onReplicaList adopts the replicas that an earlier term or incarnation started.
func (d *deployment) onReplicaList(ctx actor.Context, msg *messages.ListReplicasResult) {
	n := d.nodes[msg.GetNode()]
	if d.checkFenced(msg.GetRefused()) || n == nil || n.reported {
		return
	}
	n.reported = true
	for _, r := range msg.GetReplicas() {
		delete(d.reservedNames, r.GetReplica())
		if existing := d.replicas[r.GetReplica()]; existing != nil {
			if existing.spec.GetNode() != msg.GetNode() { // the name was reused while this node was away
				d.orphans[location{msg.GetNode(), r.GetReplica()}] = r.GetSpec().GetGpu()
			}
			continue
		}
		c := &replicaState{spec: r.GetSpec(), phase: loading, since: time.Now(), pid: pidOf(r.GetActor()),
			adopted: true}
		d.replicas[r.GetReplica()] = c
		ctx.Watch(c.pid)
		d.sendCommand(ctx, c)
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

// checkFenced reports whether a later term has begun. The group then stops this actor.
func (d *deployment) checkFenced(r *messages.Refused) bool {
	if r.GetReason() == messages.Reason_REASON_STALE_TERM && !d.fenced {
		d.fenced = true
		d.Log.Warn().Str("model", d.Name).Uint64("term", d.Term).Str("detail", r.GetDetail()).
			Msg("deployment fenced by a later term")
	}
	return d.fenced
}

// onTerminated handles the end of a replica. If its node is alive, its lease remains for the next
// replica to adopt.
func (d *deployment) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	for name, r := range d.replicas {
		if !samePID(r.pid, msg.GetWho()) || r.phase == stopping {
			continue
		}
		d.Log.Warn().Str("replica", name).Str("why", msg.GetWhy().String()).Msg("replica terminated")
		d.Publish("replica.lost", name, "crashed too often, or its node was lost")
		if msg.GetWhy() == actor.TerminatedReason_AddressTerminated {
			d.requery(ctx, r)
			continue
		}
		d.onReplicaExit(ctx, r)
	}
	d.reconcile(ctx)
}

// replicaExit is an exit of a replica.
type replicaExit struct {
	at   location
	when time.Time
}

// onReplicaExit handles a replica that crashed too often or found its device lost. It is restarted
// at once where its lease is. If it exits there again within avoidAfterCrash, its lease is released
// and the GPU is avoided for that time.
func (d *deployment) onReplicaExit(ctx actor.Context, r *replicaState) {
	name, at, last := r.spec.GetName(), location{r.spec.GetNode(), r.spec.GetGpu()}, d.lastExit[r.spec.GetName()]
	d.lastExit[name] = replicaExit{at, time.Now()}
	if d.isSubstitute(name) { // the replica to be moved stays in place
		d.extendStable(moveBackoff)
		d.setPhase(ctx, r, stopping)
		return
	}
	if last.at != at || time.Since(last.when) > avoidAfterCrash {
		d.lastPlacement[name] = at
		delete(d.replicas, name)
		return
	}
	delete(d.lastPlacement, name)
	d.avoidUntil[at] = time.Now().Add(avoidAfterCrash)
	d.setFailure(&messages.Refused{
		Reason: messages.Reason_REASON_ENGINE_FAILED,
		Detail: "replica " + name + " exited twice within " + avoidAfterCrash.String() + " on " + at.node + "/" +
			at.name + ", which is avoided for that time; see the log of node " + at.node,
	})
	d.setPhase(ctx, r, stopping)
}

// requery handles a broken connection to a replica's node. If the node has left, MembersChanged
// will follow. Otherwise the replica may still run, so the node is queried again.
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

package deployment

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

// sendCommand sends the command of the replica's phase, for the first time or again.
func (d *deployment) sendCommand(ctx actor.Context, r *replicaState) {
	name, n := r.spec.GetName(), d.nodes[r.spec.GetNode()]
	if n == nil && r.phase != placing || d.fenced {
		return // MembersChanged will remove it
	}
	switch r.phase {
	case placing:
		r.gpus = d.queryGPUs(ctx, name)
		supervise.After(ctx, gpuReplyTimeout, &placementTimeout{d.incarnation, name})
	case starting:
		ctx.Request(d.Replicas(n.member), &messages.StartReplica{
			RequestId: name, Replica: r.spec, Deployment: refOf(ctx.Self()), Term: d.Term,
		})
	case loading:
		ctx.Request(r.pid, &messages.GetReplica{RequestId: name})
	case draining:
		if d.drainDone(r) {
			d.setPhase(ctx, r, stopping)
			return
		}
		ctx.Request(d.Replicas(n.member), &messages.DrainReplica{RequestId: name, Replica: name, Model: d.Name,
			Term: d.Term})
		d.migrateSequences(ctx, r)
	case stopping:
		ctx.Request(d.Replicas(n.member), &messages.StopReplica{
			RequestId: name, Replica: name, Model: d.Name, Gpu: r.spec.GetGpu(), Term: d.Term,
		})
	}
}

// drainDone reports whether the drain is over. Sequences that are still there are resumed elsewhere
// by their sessions.
func (d *deployment) drainDone(r *replicaState) bool {
	state := r.status.GetState()
	timeout := drainTimeout
	if d.noMigrationTarget(r) {
		timeout = finishTimeout
	}
	return time.Since(r.since) > timeout ||
		state != messages.ReplicaState_REPLICA_STATE_SERVING && state != messages.ReplicaState_REPLICA_STATE_DRAINING
}

// migrateSequences migrates the sequences of a draining replica to the least loaded one with the
// same files.
func (d *deployment) migrateSequences(ctx actor.Context, r *replicaState) {
	if r.migrating {
		return
	}
	var to *replicaState
	for _, other := range d.replicas {
		if other != r && other.serving() && sameFiles(other, r) && (to == nil || other.load() < to.load()) {
			to = other
		}
	}
	if to != nil {
		r.migrating = true
		ctx.Request(r.pid, &messages.MigrateSequences{
			RequestId: r.spec.GetName(), Target: to.spec.GetName(), TargetActor: refOf(to.pid), Term: d.Term,
			Cause: r.spec.GetName() + " leaves: " + r.drainCause,
		})
	}
}

func (d *deployment) onMigrated(msg *messages.MigrateSequencesResult) {
	if r := d.replicas[msg.GetRequestId()]; r != nil {
		r.migrating = false // sendCommand migrates the rest
	}
}

// serving reports whether sequences may be sent to the replica.
func (r *replicaState) serving() bool {
	return r.phase == up && r.status.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING
}

func (r *replicaState) load() uint32 { return r.status.GetRunning() + r.status.GetWaiting() }

func (d *deployment) onReplicaStarted(ctx actor.Context, msg *messages.StartReplicaResult) {
	r := d.replicas[msg.GetRequestId()]
	if r == nil || r.phase != starting || d.checkFenced(msg.GetRefused()) || msg.GetStarted() == nil {
		return // a refused command is repeated by the next tick
	}
	r.pid = pidOf(msg.GetStarted().GetActor())
	ctx.Watch(r.pid)
	d.setPhase(ctx, r, loading)
	d.reconcile(ctx)
}

// onReplicaStatus handles a replica's report.
func (d *deployment) onReplicaStatus(ctx actor.Context, status *messages.ReplicaStatus, failure *messages.Refused) {
	r := d.replicas[status.GetName()]
	if r == nil || r.phase == placing || r.pid != nil && !samePID(r.pid, pidOf(status.GetActor())) {
		return
	}
	r.status = status
	if r.pid == nil {
		r.pid = pidOf(status.GetActor())
		ctx.Watch(r.pid)
	}
	switch status.GetState() {
	case messages.ReplicaState_REPLICA_STATE_SERVING:
		if r.phase == starting || r.phase == loading {
			d.failure = nil
			delete(d.lastPlacement, status.GetName())
			d.setPhase(ctx, r, up)
			d.Publish("replica.serving", status.GetName(), "on "+r.spec.GetNode()+"/"+status.GetGpu())
		}
	case messages.ReplicaState_REPLICA_STATE_DRAINING:
		if r.phase < draining { // drained by an earlier term
			r.drainCause = "drained by an earlier term of its deployment"
			d.setPhase(ctx, r, draining)
		}
	case messages.ReplicaState_REPLICA_STATE_FAILED:
		if status.GetFoundRevision() != "" {
			failure = d.weightsDiffer(r, status.GetFoundRevision())
		}
		d.onFailed(ctx, r, failure)
	}
	d.checkRevision(ctx, r)
	d.reconcile(ctx)
}

// onFailed handles a replica that failed to load, or whose device was lost after it served.
func (d *deployment) onFailed(ctx actor.Context, r *replicaState, failure *messages.Refused) {
	lost := failure.GetReason() == messages.Reason_REASON_QUARANTINED && r.phase == up
	if r.phase != starting && r.phase != loading && !lost {
		return
	}
	if failure == nil {
		failure = &messages.Refused{
			Reason: messages.Reason_REASON_LOAD_FAILED, Detail: "replica " + r.spec.GetName() + " failed to load",
		}
	}
	d.avoidUntil[location{r.spec.GetNode(), r.spec.GetGpu()}] = time.Now().Add(avoidAfterRefusal)
	if d.isSubstitute(r.spec.GetName()) {
		d.extendStable(moveBackoff)
	}
	if failure.GetReason() == messages.Reason_REASON_WEIGHTS_DIFFER {
		d.Publish("model.weights_differ", d.Name, failure.GetDetail())
	} else {
		d.facts = nil // the files may have changed since the inspection
	}
	d.setFailure(d.withNode(r, failure))
	d.setPhase(ctx, r, stopping)
}

// withNode adds the node to a load failure, because the model's files may be missing on one node
// alone.
func (d *deployment) withNode(r *replicaState, failure *messages.Refused) *messages.Refused {
	if failure.GetReason() != messages.Reason_REASON_LOAD_FAILED {
		return failure
	}
	return &messages.Refused{
		Reason: failure.GetReason(), RetryAfter: failure.GetRetryAfter(),
		Detail: "node " + r.spec.GetNode() + ": " + failure.GetDetail(),
	}
}

func (d *deployment) onDrained(ctx actor.Context, msg *messages.ReplicaDrained) {
	if r := d.replicas[msg.GetReplica()]; r != nil && r.phase == draining {
		d.setPhase(ctx, r, stopping)
	}
}

func (d *deployment) onStopped(ctx actor.Context, msg *messages.StopReplicaResult) {
	if d.checkFenced(msg.GetRefused()) || msg.GetStopped() == nil {
		return
	}
	for s := range d.orphans {
		if s.node+"/"+s.name == msg.GetRequestId() {
			delete(d.orphans, s)
			return
		}
	}
	if r := d.replicas[msg.GetRequestId()]; r != nil && r.phase == stopping {
		delete(d.replicas, msg.GetRequestId())
		d.Publish("replica.stopped", msg.GetRequestId(), "memory freed")
		d.reconcile(ctx)
	}
}

func (d *deployment) setFailure(why *messages.Refused) {
	if d.failure.GetDetail() != why.GetDetail() {
		d.Log.Warn().Str("model", d.Name).Stringer("reason", why.GetReason()).Str("detail", why.GetDetail()).
			Msg("deployment failed")
		d.Publish("model.failed", d.Name, why.GetDetail())
	}
	d.failure, d.outOfMemory = why, false
}

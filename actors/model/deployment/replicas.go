package deployment

import (
	"github.com/asynkron/protoactor-go/actor"

	core "troupe/core/deployment"
	"troupe/messages"
)

// isStale reports whether a command was refused because a later term has begun. If that is later than the
// term of this actor, the group then stops it. Otherwise an earlier leader on this node sent the command.
func (d *deployment) isStale(ctx actor.Context, r *messages.Refused) bool {
	if r.GetReason() != messages.Reason_REASON_STALE_TERM {
		return false
	}
	if current := r.GetTerm(); current == 0 || current > d.Term { // earlier versions sent no term
		d.handle(ctx, core.StaleTerm{Detail: r.GetDetail()})
	}
	return true
}

func (d *deployment) onReplicaList(ctx actor.Context, msg *messages.ListReplicasResult) {
	if d.isStale(ctx, msg.GetRefused()) {
		return
	}
	list := core.ReplicaList{Node: msg.GetNode()}
	for _, r := range msg.GetReplicas() {
		list.Replicas = append(list.Replicas, core.Running{
			Replica: r.GetReplica(), Spec: replicaSpecOf(r.GetSpec()), Actor: refOf(r.GetActor()),
		})
	}
	d.handle(ctx, list)
}

func (d *deployment) onReplicaStarted(ctx actor.Context, msg *messages.StartReplicaResult) {
	if d.isStale(ctx, msg.GetRefused()) || msg.GetStarted() == nil {
		return // a refused command is repeated by the next tick
	}
	d.handle(ctx, core.Accepted{Replica: msg.GetRequestId(), Actor: refOf(msg.GetStarted().GetActor())})
}

func (d *deployment) onReplicaStatus(ctx actor.Context, status *messages.ReplicaStatus, failure *messages.Refused) {
	report := reportOf(status)
	d.reports[report.Actor] = status
	d.handle(ctx, core.Reported{Report: report, Failure: failureOf(failure)})
}

func (d *deployment) onReplicaStopped(ctx actor.Context, msg *messages.StopReplicaResult) {
	if d.isStale(ctx, msg.GetRefused()) || msg.GetStopped() == nil {
		return
	}
	d.handle(ctx, core.Freed{Request: msg.GetRequestId()})
}

// onTerminated handles the end of a replica, or of the connection to its node.
func (d *deployment) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	replica, why := core.Ref{Address: msg.GetWho().GetAddress(), ID: msg.GetWho().GetId()}, msg.GetWhy().String()
	if msg.GetWhy() == actor.TerminatedReason_AddressTerminated {
		d.handle(ctx, core.Unreachable{Actor: replica, Why: why})
		return
	}
	d.handle(ctx, core.Exited{Actor: replica, Why: why})
}

func samePID(a, b *actor.PID) bool {
	return a != nil && b != nil && a.GetAddress() == b.GetAddress() && a.GetId() == b.GetId()
}

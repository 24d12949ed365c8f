package router

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/demand"
	core "troupe/core/router"
	"troupe/messages"
)

func (r *router) onStarted(ctx actor.Context) {
	// The incarnation grows over restarts of the actor and of the process.
	r.incarnation = max(uint64(supervise.Now(ctx).UnixNano()), *r.lastIncarnation+1)
	*r.lastIncarnation = r.incarnation
	r.machine, r.reports = core.New(r.Node, storedOf(r.Cache.All())), newReports()
	r.delta = r.newDelta(ctx)
	ctx.Request(r.Replicas, &messages.ListReplicas{})
	ctx.Request(r.Deployments, &messages.GetDeploymentSpec{})
	for _, tier := range r.Tiers {
		ctx.Request(tier, &messages.GetSlots{})
	}
	supervise.After(ctx, core.FlushInterval, &flush{r.incarnation})
	r.perform(ctx, r.machine.Start(r.membersOf(r.Members()), supervise.Now(ctx)))
}

func (r *router) onFlush(ctx actor.Context, msg *flush) {
	if msg.incarnation == r.incarnation {
		supervise.After(ctx, core.FlushInterval, msg)
		r.machine.Record(r.Recorder.Active()) // for requests that wait
		r.perform(ctx, r.machine.Tick(supervise.Now(ctx)))
	}
}

// onReplicaList requests the status of this node's replicas after the router started.
func (r *router) onReplicaList(ctx actor.Context, msg *messages.ListReplicasResult) {
	for _, m := range msg.GetReplicas() {
		ctx.Request(pidOf(refOf(m.GetActor())), &messages.GetReplica{})
	}
}

func (r *router) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	r.perform(ctx, r.machine.Members(r.membersOf(msg), supervise.Now(ctx)))
	r.tellPlanner(ctx)
}

func (r *router) onReplicaAnnounced(ctx actor.Context, msg *messages.ReplicaAnnounced) {
	r.perform(ctx, r.machine.Reported(reportOf(msg), supervise.Now(ctx)))
}

func (r *router) onTierAnnounced(ctx actor.Context, msg *messages.TierAnnounced) {
	r.perform(ctx, r.machine.TierReported(tierOf(msg)))
}

func (r *router) onRoutesAnnounced(ctx actor.Context, msg *messages.RoutesAnnounced) {
	r.perform(ctx, r.machine.Announced(announcementOf(msg), supervise.Now(ctx)))
}

// onTerminated handles the end of a replica of this node, or of the connection to another node.
func (r *router) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	who := core.Actor{Address: msg.GetWho().GetAddress(), ID: msg.GetWho().GetId()}
	r.perform(ctx, r.machine.Lost(who, supervise.Now(ctx)))
}

// onRouteDeployment handles the status of a deployment that this node leads.
func (r *router) onRouteDeployment(ctx actor.Context, msg *messages.RouteDeployment) {
	if msg.GetWithdrawn() {
		r.perform(ctx, r.machine.Withdrawn(msg.GetStatus().GetSpec().GetName()))
		return
	}
	r.perform(ctx, r.machine.StatusReported(statusOf(msg.GetStatus()), supervise.Now(ctx)))
}

func (r *router) onApply(ctx actor.Context, msg *messages.ApplyDeployment) {
	r.perform(ctx, r.machine.Stored(storedDeploymentOf(msg), supervise.Now(ctx)))
}

func (r *router) onRemove(ctx actor.Context, msg *messages.RemoveDeployment) {
	r.perform(ctx, r.machine.Deleted(msg.GetName(), supervise.Now(ctx)))
}

func (r *router) onStoreRead(ctx actor.Context, msg *messages.ListDeploymentsResult) {
	r.perform(ctx, r.machine.StoreRead(msg.GetNames(), supervise.Now(ctx)))
}

// onRouteSequence answers with the replica that is expected to serve a request soonest, or with a
// refusal. If the request has to wait, it says so and answers again later.
func (r *router) onRouteSequence(ctx actor.Context, msg *messages.RouteSequence) {
	r.machine.Record(r.Recorder.Active())
	r.perform(ctx, r.machine.Route(requestOf(msg, ctx.Sender()), supervise.Now(ctx)))
}

// onCancelRoute handles the end of a session.
func (r *router) onCancelRoute(ctx actor.Context, msg *messages.CancelRoute) {
	r.perform(ctx, r.machine.CancelRoute(msg.GetRequestId(), supervise.Now(ctx)))
}

func (r *router) onMoved(ctx actor.Context, msg *messages.SequenceMoved) {
	r.machine.Moved(msg.GetRequestId(), moveOf(msg), supervise.Now(ctx))
}

// onGetDeployment answers with the status of a deployment, or with a refusal.
func (r *router) onGetDeployment(ctx actor.Context, msg *messages.GetDeployment) {
	if refusal, ok := r.machine.Deployment(msg.GetName()); !ok {
		ctx.Respond(refused(refusal))
		return
	}
	s := r.reports.status(msg.GetName(), r.Cache)
	s.Demand = r.reports.demand.demandOf(s, &demand.Figures{})
	ctx.Respond(s)
}

// onFindBlocks answers with the holders of blocks that a replica lacks.
func (r *router) onFindBlocks(ctx actor.Context, msg *messages.FindBlocks) {
	ctx.Respond(findResult(msg.GetRequestId(), r.machine.Find(queryOf(msg), supervise.Now(ctx))))
}

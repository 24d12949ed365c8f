package router

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	core "troupe/core/router"
	"troupe/messages"
	"troupe/recording"
)

// perform carries out effects, in order.
func (r *router) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Answer:
			ctx.Send(pidOf(e.To), routeResult(e))
		case core.WakeModel:
			ctx.Send(pidOf(e.To), &messages.WakeModel{
				Name: e.Deployment, Node: r.Node, Waiting: uint32(e.Waiting), Wakes: uint32(e.Wakes),
				Revision: e.Stored, Oldest: durationpb.New(e.Oldest),
			})
		case core.AskSnapshot:
			ctx.Request(pidOf(e.Peer), &messages.GetRoutes{Node: r.Node})
		case core.SendSnapshot:
			ctx.Send(pidOf(e.Peer), r.snapshot(ctx))
		case core.Watch:
			ctx.Watch(pidOf(e.Actor))
		case core.KeepReplica:
			r.reports.keepReplica(e, replicaStatus(ctx.Message(), e.At))
		case core.DropReplica:
			r.reports.dropReplica(e)
		case core.KeepStatus:
			before, now := r.reports.deployments[e.Deployment], deploymentStatus(ctx.Message(), e.At)
			r.reports.deployments[e.Deployment] = now
			if mayNeedPlan(before, now) {
				r.tellPlanner(ctx)
			}
		case core.DropStatus:
			delete(r.reports.deployments, e.Deployment)
			r.tellPlanner(ctx)
		case core.KeepDemand:
			r.reports.demand[e.Node] = newNodeDemand(demandReported(ctx.Message()))
		case core.DropDemand:
			delete(r.reports.demand, e.Node)
		case core.Share:
			share(r.delta, ctx.Message())
		case core.Announce:
			r.announce(ctx, e)
		case core.AskBlocks:
			ctx.Request(pidOf(e.Replica), &messages.GetReplica{})
		case core.CorrectAdapters:
			r.correctAdapters(ctx, e)
		case core.Store:
			r.Cache.put(ctx.Message().(*messages.ApplyDeployment))
			r.tellPlanner(ctx)
		case core.DropStored:
			r.Cache.remove(e.Deployment)
			r.tellPlanner(ctx)
		case core.Decided:
			r.Recorder.Decision(supervise.Now(ctx), decisionOf(e))
		case core.ReportSynced:
			r.OnSynced()
		case core.Ignored: // repeated and outdated announcements are frequent
		default:
			panic(fmt.Sprintf("router: unknown effect %T", effect))
		}
	}
}

// decisionOf returns a decision as it is recorded.
func decisionOf(e core.Decided) recording.Decision {
	d := recording.Decision{ID: e.Request, Model: e.Model, Saw: e.Saw, Choice: e.Choice, Cause: e.Cause}
	if e.Refusal != (core.Refusal{}) {
		d.Reason = messages.Reason(e.Refusal.Reason).String()
	}
	return d
}

// announce sends the next announcement and starts collecting the one after it.
func (r *router) announce(ctx actor.Context, e core.Announce) {
	r.delta.Sequence, r.delta.Sessions = e.Sequence, uint32(r.Sessions())
	r.delta.Gone, r.delta.Withdrawn = e.Gone, e.Withdrawn
	for _, peer := range e.To {
		ctx.Send(pidOf(peer), r.delta)
	}
	r.delta = r.newDelta(ctx)
}

func (r *router) newDelta(ctx actor.Context) *messages.RoutesAnnounced {
	return &messages.RoutesAnnounced{
		Node: r.Node, Incarnation: r.incarnation,
		Router: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
	}
}

// share adds the report, status or demand in a message to an announcement.
func share(delta *messages.RoutesAnnounced, message any) {
	switch msg := message.(type) {
	case *messages.ReplicaAnnounced:
		delta.Replicas = append(delta.Replicas, msg)
	case *messages.TierAnnounced:
		delta.Tiers = append(delta.Tiers, msg)
	case *messages.RouteDeployment:
		delta.Deployments = append(delta.Deployments, msg.GetStatus())
	case *messages.DemandReported:
		delta.Demand = msg
	}
}

// snapshot returns the state of this node for a peer.
func (r *router) snapshot(ctx actor.Context) *messages.RoutesAnnounced {
	s, all := r.machine.Snapshot(), r.newDelta(ctx)
	all.Sequence, all.Snapshot, all.Sessions = s.Sequence, true, uint32(r.Sessions())
	all.Demand = r.reports.demand[r.Node].report
	for _, b := range s.Replicas {
		all.Replicas = append(all.Replicas, &messages.ReplicaAnnounced{
			Status: r.reports.replicas[b.Model][b.Name], Committed: b.Blocks, Snapshot: true,
		})
	}
	for _, t := range s.Tiers {
		all.Tiers = append(all.Tiers, tierSnapshot(t))
	}
	for _, name := range s.Statuses {
		all.Deployments = append(all.Deployments, r.reports.deployments[name])
	}
	return all
}

// correctAdapters sends a replica of this node the differences between its adapters and the
// catalogue. It does so after each report until the two agree.
func (r *router) correctAdapters(ctx actor.Context, e core.CorrectAdapters) {
	if r.Adapters == nil {
		return
	}
	status := replicaStatus(ctx.Message(), 0)
	for _, m := range r.Adapters(status.GetModel(), status.GetAdapters()) {
		ctx.Send(pidOf(e.Replica), m)
	}
}

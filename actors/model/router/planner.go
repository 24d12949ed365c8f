package router

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// tellPlanner tells the planner of this node that it may have to plan, so that it does not wait for its next
// look at the cluster.
func (r *router) tellPlanner(ctx actor.Context) {
	if r.Planner != nil {
		ctx.Send(r.Planner, &messages.ClusterChanged{})
	}
}

// mayNeedPlan reports whether a deployment has another leader, knows its memory now, has requests that wait for
// a replica now, or has replicas that ended, came, began to serve, or whose device was quarantined. Figures that
// change all the time do not count.
func mayNeedPlan(before, now *messages.DeploymentStatus) bool {
	return before.GetNode() != now.GetNode() ||
		(before.GetNeed() == nil) != (now.GetNeed() == nil) ||
		before.GetWakes() == 0 && now.GetWakes() > 0 ||
		!slices.EqualFunc(before.GetAssigned(), now.GetAssigned(), func(a, b *messages.AssignmentStatus) bool {
			return a.GetReplica() == b.GetReplica() && a.GetFailure() == b.GetFailure() && a.GetNode() == b.GetNode() &&
				serves(a) == serves(b) && a.GetQuarantined() == b.GetQuarantined()
		})
}

func serves(a *messages.AssignmentStatus) bool {
	return a.GetProgress() == messages.AssignmentProgress_ASSIGNMENT_PROGRESS_UP
}

package deployment

import (
	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	core "troupe/core/deployment"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/messages"
)

// assignedOf returns the assignments of a stored deployment, by replica.
func assignedOf(s *messages.DeploymentSpec) map[string]core.Assignment {
	all := make(map[string]core.Assignment)
	for _, a := range s.GetAssignments().GetReplicas() {
		all[a.GetReplica()] = core.Assignment{
			Node: a.GetNode(), GPUs: a.GetGpus(), Why: a.GetWhy(), After: a.GetAfter(), At: a.GetAt().AsTime(),
		}
	}
	return all
}

var progresses = map[core.Progress]messages.AssignmentProgress{
	core.ProgressAssigned: messages.AssignmentProgress_ASSIGNMENT_PROGRESS_ASSIGNED,
	core.ProgressStarting: messages.AssignmentProgress_ASSIGNMENT_PROGRESS_STARTING,
	core.ProgressUp:       messages.AssignmentProgress_ASSIGNMENT_PROGRESS_UP,
	core.ProgressLeaving:  messages.AssignmentProgress_ASSIGNMENT_PROGRESS_LEAVING,
}

func assignmentStatus(p core.ReplicaProgress) *messages.AssignmentStatus {
	s := &messages.AssignmentStatus{
		Replica: p.Replica, Node: p.Node, Gpus: p.GPUs, Progress: progresses[p.Progress],
		Since: timestamppb.New(p.Since), Failure: p.Failure, Outdated: p.Outdated,
		Quarantined: p.Quarantined, RevisionDigest: p.Files, Served: p.Served,
	}
	if !p.At.IsZero() {
		s.At = timestamppb.New(p.At)
	}
	return s
}

// reportPlan adds to a status what the planner needs to know.
func (d *deployment) reportPlan(s *messages.DeploymentStatus, is core.Status) {
	for _, p := range is.Replicas {
		s.Assigned = append(s.Assigned, assignmentStatus(p))
	}
	if s.Wakes = uint32(is.Wakes); is.Wakes > 0 {
		s.OldestWaiting = durationpb.New(is.Oldest)
	}
	if d.spec == nil {
		return
	}
	if need := d.model.need(d.spec); need != (hbm.Need{}) {
		weights := int64(hbm.PagesOf(d.model.facts.WeightBytes)) * hbm.PageBytes
		s.Need = &messages.ReplicaNeed{
			Weights: uint64(weights), Fixed: uint64(need.Fixed - weights), Min: uint64(need.Min),
			MinAlone: uint64(need.MinAlone), Max: uint64(need.Max),
		}
	}
}

// onPlacementRefused handles the planner's report of why replicas are missing.
func (d *deployment) onPlacementRefused(ctx actor.Context, msg *messages.PlacementRefused) {
	e := core.PlacementRefused{Stored: msg.GetRevision(), Missing: int(msg.GetMissing()), Later: msg.GetLater()}
	if f := failureOf(msg.GetRefused()); f != nil {
		e.Failure = *f
	}
	d.handle(ctx, e)
}

// noteWake notes that the planner has woken the deployment, for which requests wait.
func (d *deployment) noteWake(ctx actor.Context, next *messages.DeploymentSpec, revision uint64) {
	wakes := d.spec != nil && next.GetAssignments() != nil && schedule.RestOf(d.spec.Bounds()) == schedule.Asleep &&
		schedule.RestOf(next.Bounds()) == schedule.Awake && !next.Held() && d.machine.Status().Wakes > 0
	if wakes && d.wake == (wake{}) {
		d.wake = wake{supervise.Now(ctx), revision}
		d.OnWake(d.Name)
	}
}

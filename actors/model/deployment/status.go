package deployment

import (
	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	core "troupe/core/deployment"
	"troupe/messages"
)

// publishStatus sends the deployment's status to the router if it has changed. The router announces
// it.
func (d *deployment) publishStatus(ctx actor.Context) {
	s := d.status()
	s.Replicas = nil // routers get these from the replicas
	spec := s.Spec
	s.Spec = nil
	if last := d.published; last != nil && sameSpec(spec, last.spec) && proto.Equal(s, last.rest) {
		return
	}
	d.published = &published{spec, s}
	whole := proto.CloneOf(s)
	whole.Spec = spec
	ctx.Send(d.Router, &messages.RouteDeployment{Status: whole})
}

// published is the last status that was sent to the router. The spec, which is large and seldom
// changes, is not in the rest.
type published struct {
	spec *messages.DeploymentSpec
	rest *messages.DeploymentStatus
}

// sameSpec reports whether two specs are equal. A spec is not changed in place.
func sameSpec(a, b *messages.DeploymentSpec) bool { return a == b || proto.Equal(a, b) }

var states = map[core.Condition]messages.DeploymentState{
	core.ConditionPending:  messages.DeploymentState_DEPLOYMENT_STATE_PENDING,
	core.ConditionReady:    messages.DeploymentState_DEPLOYMENT_STATE_READY,
	core.ConditionDegraded: messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED,
	core.ConditionFailed:   messages.DeploymentState_DEPLOYMENT_STATE_FAILED,
	core.ConditionRemoving: messages.DeploymentState_DEPLOYMENT_STATE_REMOVING,
	core.ConditionStopped:  messages.DeploymentState_DEPLOYMENT_STATE_STOPPED,
	core.ConditionParked:   messages.DeploymentState_DEPLOYMENT_STATE_PARKED,
	core.ConditionStandby:  messages.DeploymentState_DEPLOYMENT_STATE_STANDBY,
	core.ConditionAsleep:   messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP,
	core.ConditionWaking:   messages.DeploymentState_DEPLOYMENT_STATE_WAKING,
}

func (d *deployment) status() *messages.DeploymentStatus {
	is := d.machine.Status()
	s := &messages.DeploymentStatus{
		Spec: d.spec, Revision: d.revision, Node: d.Node, Term: d.Term, State: states[is.Condition], Detail: is.Detail,
		Failure: refused(is.Failure), WaitingToWake: uint32(is.Waiting),
	}
	if s.Spec == nil {
		s.Spec = &messages.DeploymentSpec{Name: d.Name}
	}
	d.reportPlan(s, is)
	for _, p := range is.Preemptions {
		s.Preemptions = append(s.Preemptions, preemptionStatus(p))
	}
	kept := make(map[core.Ref]*messages.ReplicaStatus, len(is.Reporting))
	for _, replica := range is.Reporting {
		if report := d.reports[replica]; report != nil {
			kept[replica] = report
			s.Replicas = append(s.Replicas, report)
		}
	}
	d.reports = kept // forget the reports of replicas that are gone
	return s
}

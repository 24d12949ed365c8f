package deployment

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/plan"
	"troupe/messages"
)

// ready reports whether sequences may be sent to a replica.
func (r *copyOf) ready() bool {
	return r.phase == up && r.status.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING
}

func (d *deployment) route(msg *messages.RouteSequence) *messages.RouteSequenceResult {
	table := plan.NewRoutes()
	for name, r := range d.replicas {
		if r.ready() {
			table.Update(plan.Replica{
				Name: name, State: plan.Serving, Running: int(r.status.GetRunning()), Waiting: int(r.status.GetWaiting()) + r.routed,
			})
		}
	}
	decision := table.Route(plan.Request{ID: msg.GetRequestId(), Avoid: msg.GetAvoid()})
	name := decision.Name
	if !decision.OK {
		return &messages.RouteSequenceResult{RequestId: msg.GetRequestId(), Outcome: &messages.RouteSequenceResult_Refused{
			Refused: d.unroutable(),
		}}
	}
	r := d.replicas[name]
	r.routed++
	return &messages.RouteSequenceResult{RequestId: msg.GetRequestId(), Outcome: &messages.RouteSequenceResult_Routed{
		Routed: &messages.SequenceRouted{Replica: name, Actor: r.status.GetActor(), Incarnation: r.status.GetIncarnation(), Why: decision.Why()},
	}}
}

// unroutable says why no replica serves: for good, as far as is known, or for a moment.
func (d *deployment) unroutable() *messages.Refused {
	switch {
	case d.removing:
		return &messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: "model " + d.Name + " is being deleted"}
	case d.failure != nil:
		return d.failure
	}
	return &messages.Refused{
		Reason: messages.Reason_REASON_NOT_READY, Detail: "model " + d.Name + " is starting", RetryAfter: durationpb.New(retryAfter),
	}
}

func (d *deployment) status() *messages.DeploymentStatus {
	s := &messages.DeploymentStatus{Spec: d.spec, Revision: d.revision}
	if s.Spec == nil {
		s.Spec = &messages.DeploymentSpec{Name: d.Name}
	}
	serving := 0
	for _, r := range d.replicas {
		if r.ready() {
			serving++
		}
		if r.status != nil {
			s.Replicas = append(s.Replicas, r.status)
		}
	}
	slices.SortFunc(s.Replicas, func(a, b *messages.ReplicaStatus) int { return cmp.Compare(a.GetName(), b.GetName()) })
	s.State, s.Detail = d.state(serving)
	return s
}

func (d *deployment) state(serving int) (messages.DeploymentState, string) {
	want := int(d.spec.GetReplicas())
	switch {
	case d.removing:
		return messages.DeploymentState_DEPLOYMENT_STATE_REMOVING, "its replicas finish what they have"
	case d.spec != nil && serving >= want:
		return messages.DeploymentState_DEPLOYMENT_STATE_READY, ""
	case serving > 0:
		return messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED, fmt.Sprintf("%d of %d replicas serve. %s", serving, want, d.failure.GetDetail())
	case d.failure != nil:
		return messages.DeploymentState_DEPLOYMENT_STATE_FAILED, d.failure.GetDetail()
	}
	return messages.DeploymentState_DEPLOYMENT_STATE_PENDING, "no replica serves yet"
}

// announce publishes that all replicas serve, when that becomes true.
func (d *deployment) announce() {
	serving := 0
	for _, r := range d.replicas {
		if r.ready() {
			serving++
		}
	}
	if want := int(d.spec.GetReplicas()); serving != d.serving && serving == want && !d.removing {
		d.Publish("model.ready", d.Name, fmt.Sprintf("%d of %d replicas serve", serving, want))
	}
	d.serving = serving
}

package deployment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// publishStatus sends the deployment's status to the router, which announces it, if it has changed.
func (d *deployment) publishStatus(ctx actor.Context) {
	s := d.status()
	s.Replicas = nil // routers get these from the replicas
	if proto.Equal(s, d.published) {
		return
	}
	ready := s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
	if ready && !d.wasReady {
		d.Publish("model.ready", d.Name, fmt.Sprintf("%d of %d replicas serve", d.spec.GetReplicas(),
			d.spec.GetReplicas()))
	}
	d.published, d.wasReady = s, ready
	ctx.Send(d.Router, &messages.RouteDeployment{Status: s})
}

func (d *deployment) status() *messages.DeploymentStatus {
	s := &messages.DeploymentStatus{Spec: d.spec, Revision: d.revision, Node: d.Node, Term: d.Term,
		Failure: d.failure}
	if s.Spec == nil {
		s.Spec = &messages.DeploymentSpec{Name: d.Name}
	}
	serving := 0
	for _, r := range d.replicas {
		if r.serving() {
			serving++
		}
		if r.status != nil {
			s.Replicas = append(s.Replicas, r.status)
		}
	}
	slices.SortFunc(s.Replicas, func(a, b *messages.ReplicaStatus) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	s.State, s.Detail = d.stateAndDetail(serving)
	return s
}

// degradedCause returns what is wrong although the requested number of replicas serves; empty:
// nothing.
func (d *deployment) degradedCause() string {
	earlier, folderFault := 0, ""
	for _, r := range d.replicas {
		if r.serving() && !d.current(r) {
			earlier++
		}
		if why := r.status.GetFolderFault(); why != "" && (folderFault == "" || why < folderFault) {
			folderFault = why
		}
	}
	switch {
	case earlier > 0 && d.failure != nil:
		return fmt.Sprintf("%d of them have an earlier spec: %s", earlier, d.failure.GetDetail())
	case folderFault != "":
		return folderFault
	}
	return ""
}

func (d *deployment) stateAndDetail(serving int) (messages.DeploymentState, string) {
	want := int(d.spec.GetReplicas())
	switch {
	case d.removing:
		return messages.DeploymentState_DEPLOYMENT_STATE_REMOVING, "its replicas are draining"
	case d.spec.Stopped() && len(d.replicas) > 0:
		return messages.DeploymentState_DEPLOYMENT_STATE_STOPPED,
			"scaled to 0 replicas; the remaining ones are draining"
	case d.spec.Stopped():
		return messages.DeploymentState_DEPLOYMENT_STATE_STOPPED,
			"scaled to 0 replicas; models.scale starts it"
	case d.spec != nil && serving >= want && d.degradedCause() != "":
		return messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED,
			fmt.Sprintf("%d of %d replicas serve, but %s", serving, want, d.degradedCause())
	case d.spec != nil && serving >= want:
		return messages.DeploymentState_DEPLOYMENT_STATE_READY, ""
	case serving > 0:
		detail := fmt.Sprintf("%d of %d replicas serve", serving, want)
		if d.failure != nil {
			detail += "; " + d.failure.GetDetail()
		}
		return messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED, detail
	case d.failure != nil:
		return messages.DeploymentState_DEPLOYMENT_STATE_FAILED, d.failure.GetDetail()
	}
	return messages.DeploymentState_DEPLOYMENT_STATE_PENDING, "no replica serves yet"
}

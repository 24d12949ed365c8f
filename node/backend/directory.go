package backend

import (
	"context"
	"errors"
	"fmt"

	"troupe/actors/model/router"
	"troupe/control"
	"troupe/messages"
)

// Directory is the gateway's view of the deployments.
type Directory struct {
	*DeploymentControl
	Cache *router.DeploymentCache // of this node's router
}

// Deployment implements gateway.Directory. It queries the router only for deployments that are not
// in this node's cache.
func (d Directory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	if stored := d.Cache.Find(name); stored != nil {
		return &messages.DeploymentStatus{Spec: stored.GetSpec(), Revision: stored.GetRevision()}, nil
	}
	status, err := d.DeploymentControl.Deployment(ctx, name)
	if err == nil && status.GetSpec().GetPath() == "" { // the router knows only its replicas, on other nodes
		status, err = nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("model %q is not deployed; the last of its replicas are draining", name))
	}
	if refused := (control.Refusal{}); errors.As(err, &refused) &&
		refused.GetReason() == messages.Reason_REASON_NOT_FOUND &&
		len(d.Catalogue.All("")) > 0 {
		err = control.Refuse(refused.GetReason(), refused.GetDetail()+", and adapters, which /v1/models lists")
	}
	return status, err
}

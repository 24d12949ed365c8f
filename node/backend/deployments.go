package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/messages"
	"troupe/node/query"
)

// DeploymentStore is the part of the store that holds deployments.
type DeploymentStore interface {
	// Get returns a deployment and its revision.
	Get(ctx context.Context, name string) (*messages.DeploymentSpec, uint64, error)
	// Put stores a deployment if its revision is over; 0 means that no deployment is stored yet.
	Put(ctx context.Context, spec *messages.DeploymentSpec, over uint64) (revision uint64, err error)
	Delete(ctx context.Context, name string, drop bool) error
}

// Publish publishes an event.
type Publish func(kind, subject, detail string)

// DeploymentControl implements control.DeploymentBackend.
type DeploymentControl struct {
	*ModelFiles
	Store     DeploymentStore
	System    *actor.ActorSystem
	Catalogue *catalogue.Catalogue // catalogue of the adapters
	Publish   Publish
	Log       zerolog.Logger
}

// Deployment implements control.Backend.
func (d *DeploymentControl) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	for {
		status, err := query.Ask[*messages.DeploymentStatus](ctx, d.System, query.Router,
			&messages.GetDeployment{Name: name})
		if refused := (control.Refusal{}); !errors.As(err, &refused) ||
			refused.GetReason() != messages.Reason_REASON_NOT_READY {
			return status, err
		}
		select { // the router has just started and has not read the store yet
		case <-ctx.Done():
			return nil, err
		case <-supervise.RuntimeOf(d.System).After(query.Retry):
		}
	}
}

// Deployments implements gateway.Directory and control.Backend.
func (d *DeploymentControl) Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error) {
	t, err := query.Ask[*messages.ClusterView](ctx, d.System, query.Router, &messages.GetClusterView{})
	return t.GetDeployments(), err
}

// DeleteDeployment implements control.Backend.
func (d *DeploymentControl) DeleteDeployment(ctx context.Context, name string, drop bool) error {
	err := d.Store.Delete(ctx, name, drop)
	if errors.Is(err, store.ErrNotFound) {
		return control.Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %q is not deployed", name))
	}
	if err == nil {
		d.Publish("model.deleted", name, "its replicas finish their requests")
	}
	return err
}

package control

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// storeDrop stores that the weights of a deployment go with its replicas, before it is deleted.
func (c *control) storeDrop(ctx context.Context, name string) error {
	_, err := c.Backend.Update(ctx, name, 0,
		func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
			if stored == nil {
				return nil, notDeployed(name)
			}
			next := proto.CloneOf(stored)
			next.DropWeights = true
			return next, nil
		})
	return err
}

func notDeployed(name string) error {
	return Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %q is not deployed", name))
}

// parkModel stores that a model is parked, and parks weights of it that no replica uses. Those of its
// replicas are parked when the replicas stop.
func (c *control) parkModel(ctx context.Context, req *messages.ParkModelRequest) (*messages.ParkModelResponse, error) {
	done, err := c.setLevel(ctx, wholeModel{req}, messages.Level_LEVEL_PARKED)
	if err != nil {
		return nil, err
	}
	c.Backend.ParkWeights(req.GetName())
	return &messages.ParkModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After),
	}, nil
}

// wholeModel is a request that names a model and none of its replicas.
type wholeModel struct{ *messages.ParkModelRequest }

func (wholeModel) GetReplica() string { return "" }

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

// parkModel refuses to park a model, because nodes have no host cache.
func (c *control) parkModel(
	_ context.Context,
	req *messages.ParkModelRequest,
) (*messages.ParkModelResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	return nil, Refuse(messages.Reason_REASON_UNSUPPORTED, fmt.Sprintf(
		"model %q cannot be parked: nodes have no host cache for weights yet; "+
			`models.scale {"name": %q, "replicas": 0} stops it and keeps its weights on the GPUs until their memory `+
			`is needed, and with "drop": true frees them`, req.GetName(), req.GetName()))
}

package control

import (
	"context"
	"fmt"

	"troupe/messages"
)

func notDeployed(name string) error {
	return Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %q is not deployed", name))
}

// parkModel stores that a model or one of its replicas is parked, and parks weights of a whole model that
// no replica uses. Those of replicas are parked when the replicas stop.
func (c *control) parkModel(ctx context.Context, req *messages.ParkModelRequest) (*messages.ParkModelResponse, error) {
	done, err := c.setLevel(ctx, req, "models.park", messages.Level_LEVEL_PARKED)
	if err != nil {
		return nil, err
	}
	if req.GetReplica() == "" {
		c.Backend.ParkWeights(req.GetName())
	}
	return &messages.ParkModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After),
	}, nil
}

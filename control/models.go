package control

import (
	"cmp"
	"context"

	"troupe/actors/supervise"
	"troupe/messages"
)

func (c *control) modelEndpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "models-deploy", "models.deploy",
			`deploy or change a model; absent fields keep their values, null resets them: `+
				`{"deployment": {"name": "kjv", "path": "models/kjv-2m"}}`, c.deployModel),
		serve(c, life, "models-list", "models.list", "all deployments and their states", c.listModels),
		serve(c, life, "models-get", "models.get", `one deployment: {"name": "kjv"}`, c.getModel),
		serve(c, life, "models-scale", "models.scale",
			`set the number of replicas; 0 stops the model: {"name": "kjv", "replicas": 3}, also "drop", "hold"`,
			c.scaleModel),
		serve(c, life, "models-delete", "models.delete",
			`delete a deployment: {"name": "kjv"}, also "drop"`, c.deleteModel),
		serve(c, life, "models-standby", "models.standby",
			`stop serving and keep the weights on the GPUs: {"name": "kjv"}, also "replica", "hold"`, c.standbyModel),
		serve(c, life, "models-activate", "models.activate",
			`serve again: from standby or parked, asleep or stopped: {"name": "kjv"}, also "replica", "hold"`,
			c.activateModel),
		serve(c, life, "models-park", "models.park",
			`stop replicas, and move their weights to the host cache: {"name": "kjv"}, also "replica", "hold"`,
			c.parkModel),
		serve(c, life, "models-release", "models.release",
			`let the planner decide again on a model that a command holds: {"name": "kjv"}`, c.releaseModel),
	}
}

// requireName refuses a request without a name.
func requireName(req interface{ GetName() string }) error {
	if req.GetName() == "" {
		return Refuse(messages.Reason_REASON_INVALID_ARGUMENT, `name is missing; send {"name": "…"}`)
	}
	return nil
}

// deployModel creates or changes a deployment. See Merge.
func (c *control) deployModel(
	ctx context.Context,
	req *messages.DeployModelRequest,
) (*messages.DeployModelResponse, error) {
	if req.GetDeployment() == nil {
		_, err := Normalize(nil)
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	name, detail := req.GetDeployment().GetName(), ""
	change := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		spec, err := applyChange(stored, req.GetDeployment(), req.GetResetFields())
		if err != nil {
			return nil, err
		}
		if detail, err = c.view.digests(ctx, spec, stored); err != nil {
			return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
		}
		c.Backend.Revise(spec, stored)
		return spec, nil
	}
	done, err := c.Backend.Update(ctx, name, req.GetIfRevision(), change)
	if err != nil {
		return nil, err
	}
	return &messages.DeployModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After), Detail: detail,
	}, nil
}

// applyChange merges a change into a stored deployment and normalizes the result.
func applyChange(stored, change *messages.DeploymentSpec, reset []string) (*messages.DeploymentSpec, error) {
	merged, err := Merge(stored, change, reset)
	if err == nil {
		merged, err = Normalize(merged)
	}
	if err != nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	return merged, nil
}

func (c *control) listModels(ctx context.Context, _ *messages.ListModelsRequest) (*messages.ListModelsResponse, error) {
	all, err := c.Backend.Deployments(ctx)
	return &messages.ListModelsResponse{Models: all}, err
}

func (c *control) getModel(ctx context.Context, req *messages.GetModelRequest) (*messages.GetModelResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	one, err := c.Backend.Deployment(ctx, req.GetName())
	return &messages.GetModelResponse{Model: one}, err
}

func (c *control) scaleModel(
	ctx context.Context,
	req *messages.ScaleModelRequest,
) (*messages.ScaleModelResponse, error) {
	if err := cmp.Or(requireName(req), checkHold(req.GetHold())); err != nil {
		return nil, err
	}
	if req.Replicas == nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`replicas is missing; send {"name": "…", "replicas": 2}, or 0 to stop the model`)
	}
	hold := HoldBy(ctx, "models.scale", req.GetHold(), supervise.OrSystem(c.Runtime).Now())
	spec := &messages.DeploymentSpec{Name: req.GetName(), Replicas: req.Replicas}
	change := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		if stored == nil {
			return nil, notDeployed(req.GetName())
		}
		next, err := applyChange(stored, spec, nil)
		if err != nil {
			return nil, err
		}
		next.DropWeights = req.GetDrop()
		return next, holdScaled(next, hold)
	}
	done, err := c.Backend.Update(ctx, req.GetName(), 0, change)
	if err != nil {
		return nil, err
	}
	return &messages.ScaleModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After),
	}, nil
}

func (c *control) deleteModel(
	ctx context.Context,
	req *messages.DeleteModelRequest,
) (*messages.DeleteModelResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	err := c.Backend.DeleteDeployment(ctx, req.GetName(), req.GetDrop())
	return &messages.DeleteModelResponse{Name: req.GetName()}, err
}

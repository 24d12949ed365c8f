package control

import (
	"context"

	"troupe/messages"
)

func (c *control) modelEndpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "models-deploy", "models.deploy", `deploy a model: {"deployment": {"name": "kjv", "path": "models/kjv-2m"}}`, c.deploy),
		serve(c, life, "models-list", "models.list", "all deployments and how they are", c.list),
		serve(c, life, "models-get", "models.get", `one deployment: {"name": "kjv"}`, c.get),
		serve(c, life, "models-scale", "models.scale", `how many replicas, from now on: {"name": "kjv", "replicas": 3}`, c.scale),
		serve(c, life, "models-delete", "models.delete", `delete a deployment: {"name": "kjv"}`, c.remove),
	}
}

// named refuses a request that does not say what it is about.
func named(req interface{ GetName() string }) error {
	if req.GetName() == "" {
		return Refuse(messages.Reason_REASON_INVALID_ARGUMENT, `name is missing; send {"name": "…"}`)
	}
	return nil
}

func (c *control) deploy(ctx context.Context, req *messages.DeployModelRequest) (*messages.DeployModelResponse, error) {
	spec, err := Normalize(req.GetDeployment())
	if err != nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	if spec.WeightsDigest, spec.RevisionDigest, err = c.view.inspect(ctx, spec.GetPath()); err != nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	revision, err := c.Backend.PutDeployment(ctx, spec, req.GetIfRevision())
	if err != nil {
		return nil, err
	}
	return &messages.DeployModelResponse{Deployment: spec, Revision: revision}, nil
}

func (c *control) list(ctx context.Context, _ *messages.ListModelsRequest) (*messages.ListModelsResponse, error) {
	all, err := c.Backend.Deployments(ctx)
	return &messages.ListModelsResponse{Models: all}, err
}

func (c *control) get(ctx context.Context, req *messages.GetModelRequest) (*messages.GetModelResponse, error) {
	if err := named(req); err != nil {
		return nil, err
	}
	one, err := c.Backend.Deployment(ctx, req.GetName())
	return &messages.GetModelResponse{Model: one}, err
}

func (c *control) scale(ctx context.Context, req *messages.ScaleModelRequest) (*messages.ScaleModelResponse, error) {
	if err := named(req); err != nil {
		return nil, err
	}
	spec, revision, err := c.Backend.Scale(ctx, req.GetName(), req.GetReplicas())
	return &messages.ScaleModelResponse{Deployment: spec, Revision: revision}, err
}

func (c *control) remove(ctx context.Context, req *messages.DeleteModelRequest) (*messages.DeleteModelResponse, error) {
	if err := named(req); err != nil {
		return nil, err
	}
	return &messages.DeleteModelResponse{Name: req.GetName()}, c.Backend.DeleteDeployment(ctx, req.GetName())
}

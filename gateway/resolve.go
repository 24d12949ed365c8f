package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"troupe/core/backend"
	"troupe/gateway/openai"
	"troupe/messages"
)

// resolve finds the deployment and the adapter that a request is for, and what they determine: the
// tokenizer and template, the salt of the KV blocks, and the priority class.
func (g *Gateway) resolve(ctx context.Context, gen *generation) error {
	ctx, cancel := gen.untilDeadline(ctx)
	defer cancel()
	d, adapter, err := g.lookUp(ctx, gen.req.Model)
	if err != nil {
		return err
	}
	gen.deployment, gen.adapter = d.GetSpec().GetName(), adapter
	gen.blockTokens = int(d.GetSpec().GetBlockTokens())
	gen.info.model, gen.info.adapter = gen.deployment, adapter.GetName()
	gen.simulated = engineOf(d.GetSpec()).Kind == backend.Simulated
	if err := checkCapabilities(gen.req, adapter, engineOf(d.GetSpec())); err != nil {
		return err
	}
	if gen.model, err = g.models.get(ctx, d); err != nil {
		return err
	}
	if gen.salt, err = g.salt(gen.info.caller, gen.req.CacheSalt); err != nil {
		return err
	}
	gen.metrics = g.metrics.forModel(gen.deployment)
	return g.applyPriority(gen, d.GetSpec().RequestClass())
}

// lookUp returns the deployment that a request is for, and the adapter if the name refers to one.
func (g *Gateway) lookUp(
	ctx context.Context, model string,
) (*messages.DeploymentStatus, *messages.AdapterSpec, error) {
	c := callerFrom(ctx)
	adapter, err := g.cfg.Adapters.FindAdapter(model, c.mayUseAdapter)
	switch {
	case err != nil:
		return nil, nil, err
	case adapter != nil:
		d, err := g.cfg.Directory.Deployment(ctx, adapter.GetModel())
		// The directory's own error may name other models.
		if err != nil && isNotFound(err) {
			err = openai.Refusal(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf(
				"adapter %q belongs to model %q, which is not deployed", adapter.GetName(), adapter.GetModel()))
		}
		return d, adapter, err
	case !strings.Contains(model, ":"):
		d, err := g.deployment(ctx, model)
		return d, nil, err
	case c.key != nil:
		return nil, nil, modelNotFound(model)
	}
	return nil, nil, openai.Refusal(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("adapter %q is not registered; /v1/models lists all adapters", model))
}

func isNotFound(err error) bool {
	var refused interface{ GetReason() messages.Reason }
	return errors.As(err, &refused) && refused.GetReason() == messages.Reason_REASON_NOT_FOUND
}

// deployment returns the status of a model for a caller. A model that its key may not use is
// refused before the lookup, so that neither the error nor the time reveals whether it exists.
func (g *Gateway) deployment(ctx context.Context, model string) (*messages.DeploymentStatus, error) {
	c := callerFrom(ctx)
	if !c.mayUse(model) {
		return nil, modelNotFound(model)
	}
	d, err := g.cfg.Directory.Deployment(ctx, model)
	if c.key != nil && isNotFound(err) {
		// The directory's own error may name other models.
		return nil, modelNotFound(model)
	}
	return d, err
}

func modelNotFound(model string) *openai.Error {
	return openai.Refusal(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("model %q is not deployed, or this API key may not use it; see /v1/models", model))
}

// applyPriority sets the priority class of a request. The deployment's default is lowered to the
// key's maximum. An explicit class above it is refused rather than lowered.
func (g *Gateway) applyPriority(gen *generation, deploymentDefault messages.PriorityClass) error {
	req, key := gen.req, gen.info.key
	most := messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED
	if key != nil {
		most = key.MaxPriority
	}
	limited := most != messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED
	switch {
	case req.Priority == messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED:
		if req.Priority = deploymentDefault; limited {
			req.Priority = min(deploymentDefault, most)
		}
	case limited && req.Priority > most:
		g.cfg.Quotas.countRefused(gen.client)
		param := "priority"
		e := openai.Refusal(messages.Reason_REASON_FORBIDDEN, fmt.Sprintf(
			"priority %s is above %s, the highest class that API key %s may use",
			className(req.Priority), className(most), key.Name))
		e.Param = &param
		return e
	}
	return nil
}

func className(c messages.PriorityClass) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "PRIORITY_CLASS_"))
}

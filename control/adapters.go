package control

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"troupe/messages"
)

// maxListed is the largest number of adapters in one answer.
const maxListed = 1000

// adapterPattern excludes names that cannot be keys of the store, and ':', which separates model
// and adapter.
var adapterPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*$`)

const maxAdapterName = 128

// NormalizeAdapter validates an adapter as far as possible without its files. It returns a copy
// without the fields that are read from the files. A name "<model>:<adapter>" also sets the model.
func NormalizeAdapter(spec *messages.AdapterSpec) (*messages.AdapterSpec, error) {
	s := &messages.AdapterSpec{
		Name: spec.GetName(), Model: spec.GetModel(), Path: spec.GetPath(), Pinned: spec.GetPinned(),
	}
	if err := splitAdapterName(&s.Model, &s.Name); err != nil {
		return nil, err
	}
	switch {
	case s.Name == "":
		return nil, fmt.Errorf(`adapter.name is missing; send {"adapter": {"name": "…", "path": "…"}}`)
	case len(s.Name) > maxAdapterName || !adapterPattern.MatchString(s.Name):
		return nil, fmt.Errorf(
			"adapter.name %q: use at most %d letters, digits, '_' and '-', with '.' and '/' between them",
			s.Name, maxAdapterName)
	case s.Path == "":
		return nil, fmt.Errorf("adapter.path is missing; send the folder of a PEFT adapter, the same on every node")
	}
	return s, nil
}

// splitAdapterName moves the model out of a name "<model>:<adapter>".
func splitAdapterName(model, name *string) error {
	of, rest, both := strings.Cut(*name, ":")
	if !both {
		return nil
	}
	if *model != "" && *model != of {
		return fmt.Errorf("the adapter's name %q contradicts its model %q; leave one of them out", *name, *model)
	}
	*model, *name = of, rest
	return nil
}

func (c *control) adapterEndpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "adapters-register", "adapters.register",
			`register a LoRA: {"adapter": {"name": "psalms", "model": "kjv", "path": "/srv/psalms"}}, also "pinned"`,
			c.registerAdapter),
		serve(c, life, "adapters-list", "adapters.list",
			`all adapters, or those of one model: {"model": "kjv"}`, c.listAdapters),
		serve(c, life, "adapters-get", "adapters.get",
			`one adapter: {"name": "psalms"} or {"name": "kjv:psalms"}`, c.getAdapter),
		serve(c, life, "adapters-delete", "adapters.delete",
			`refuse new requests, let running ones finish: {"name": "psalms"}`, c.deleteAdapter),
		serve(c, life, "adapters-pin", "adapters.pin",
			`keep an adapter on the device of every replica: {"name": "psalms"}`, c.pinAdapter(true)),
		serve(c, life, "adapters-unpin", "adapters.unpin",
			`let a pinned adapter be evicted again: {"name": "psalms"}`, c.pinAdapter(false)),
		serve(c, life, "adapters-stats", "adapters.stats",
			`where adapters are loaded, of all models or of one: {"model": "kjv"}`, c.adapterStats),
	}
}

func (c *control) registerAdapter(
	ctx context.Context,
	req *messages.RegisterAdapterRequest,
) (*messages.RegisterAdapterResponse, error) {
	stored, err := c.Backend.RegisterAdapter(ctx, req)
	return &messages.RegisterAdapterResponse{Adapter: stored}, err
}

func (c *control) listAdapters(
	ctx context.Context,
	req *messages.ListAdaptersRequest,
) (*messages.ListAdaptersResponse, error) {
	all := c.Backend.Adapters(req.GetModel())
	if after := req.GetAfter(); after != "" {
		model, name := "", after
		if err := splitAdapterName(&model, &name); err != nil || model == "" {
			return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
				fmt.Sprintf(`after is %q; send "<model>:<name>" of the last adapter in the previous answer`, after))
		}
		all = slices.DeleteFunc(all, func(a *messages.AdapterSpec) bool {
			return a.GetModel() < model || a.GetModel() == model && a.GetName() <= name
		})
	}
	limit := maxListed
	if n := int(req.GetLimit()); n > 0 {
		limit = min(n, limit)
	}
	listed := all[:min(limit, len(all))]
	uses, missing, err := c.adapterUses(ctx, &messages.NodeAdaptersRequest{Model: req.GetModel()}, listed)
	return &messages.ListAdaptersResponse{
		Adapters: listed, More: len(all) > limit, Host: c.view.HostAdapters(ctx), Uses: uses, Missing: missing,
	}, err
}

func (c *control) getAdapter(ctx context.Context, req *messages.AdapterRequest) (*messages.AdapterResponse, error) {
	name, err := adapterName(req)
	if err != nil {
		return nil, err
	}
	a, err := c.Backend.Adapter(name)
	if err != nil {
		return nil, err
	}
	of := &messages.NodeAdaptersRequest{Model: a.GetModel(), Adapter: a.Key()}
	uses, missing, err := c.adapterUses(ctx, of, []*messages.AdapterSpec{a})
	if err != nil {
		return nil, err
	}
	return &messages.AdapterResponse{Adapter: a, Use: uses[0], Missing: missing}, nil
}

func (c *control) deleteAdapter(ctx context.Context, req *messages.AdapterRequest) (*messages.AdapterResponse, error) {
	name, err := adapterName(req)
	if err != nil {
		return nil, err
	}
	a, err := c.Backend.DeleteAdapter(ctx, name)
	return &messages.AdapterResponse{Adapter: a}, err
}

func (c *control) pinAdapter(
	pinned bool,
) func(context.Context, *messages.AdapterRequest) (*messages.AdapterResponse, error) {
	return func(ctx context.Context, req *messages.AdapterRequest) (*messages.AdapterResponse, error) {
		name, err := adapterName(req)
		if err != nil {
			return nil, err
		}
		a, err := c.Backend.PinAdapter(ctx, name, pinned)
		return &messages.AdapterResponse{Adapter: a}, err
	}
}

func (c *control) adapterStats(
	ctx context.Context,
	req *messages.AdapterStatsRequest,
) (*messages.AdapterStatsResponse, error) {
	stats, err := c.Backend.AdapterStats(ctx, req.GetModel())
	if err != nil {
		return nil, err
	}
	stats.Host = c.view.HostAdapters(ctx)
	return stats, nil
}

// adapterName returns the name of the adapter that a request is about, in the form that the
// catalogue accepts.
func adapterName(req *messages.AdapterRequest) (string, error) {
	if err := requireName(req); err != nil {
		return "", err
	}
	model, name := req.GetModel(), req.GetName()
	if err := splitAdapterName(&model, &name); err != nil {
		return "", Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	if model == "" {
		return name, nil
	}
	return model + ":" + name, nil
}

package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/messages"
	"troupe/modelfile/peft"
)

// RegisterAdapter implements control.Backend and gateway.Adapters. It reads the adapter from the
// files of this node.
func (a *AdapterControl) RegisterAdapter(ctx context.Context,
	req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error) {
	return a.Register(ctx, req, "")
}

// Register registers an adapter. applied is the digest of its entry in the configuration; if it is
// "", the stored digest is kept.
func (a *AdapterControl) Register(ctx context.Context, req *messages.RegisterAdapterRequest,
	applied string) (*messages.AdapterSpec, error) {
	spec, err := a.Check(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		before, at, err := a.Store.Adapter(ctx, spec.GetModel(), spec.GetName())
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case req.GetOnlyNew():
			return nil, control.Refuse(messages.Reason_REASON_ALREADY_EXISTS,
				fmt.Sprintf("adapter %s is already registered", catalogue.Name(spec)))
		}
		spec.Registered, spec.Applied = timestamppb.New(a.Runtime.Now()), cmp.Or(applied, before.GetApplied())
		stored, err := a.Store.PutAdapter(ctx, spec, at)
		if errors.Is(err, store.ErrConflict) {
			continue // another node has written it in the meantime
		}
		if err != nil {
			return nil, err
		}
		a.Publish("adapter.registered", catalogue.Name(stored),
			fmt.Sprintf("revision %d, rank %d, %s", stored.GetRevision(), stored.GetRank(), stored.GetPath()))
		return stored, a.await(ctx, stored, func(now *messages.AdapterSpec) bool {
			return now.GetRevision() >= stored.GetRevision()
		})
	}
}

// Check finds the base model of an adapter, checks that the adapter fits it, and fills in the
// fields that come from the adapter's files.
func (a *AdapterControl) Check(ctx context.Context,
	req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error) {
	spec, err := control.NormalizeAdapter(req.GetAdapter())
	if err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	if spec.Path, err = filepath.Abs(spec.GetPath()); err != nil {
		return nil, err
	}
	if err := a.Roots.Check(spec.GetPath()); err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	base, err := a.base(ctx, spec)
	if err != nil {
		return nil, err
	}
	spec.Model, spec.BaseDigest = base.GetName(), base.GetWeightsDigest()
	file, err := a.Open(base.GetPath(), spec.GetPath())
	if err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			fmt.Sprintf("adapter %s: %v", catalogue.Name(spec), err))
	}
	spec.Rank, spec.Bytes = uint32(file.Rank), uint64(file.Layout.Bytes())
	if most := cmp.Or(base.GetMaxAdapterRank(), messages.DefaultAdapterRank); spec.GetRank() > most {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, fmt.Sprintf(
			"adapter %s has rank %d, and model %s takes at most %d; deploy the model with a higher max_adapter_rank",
			catalogue.Name(spec), spec.GetRank(), base.GetName(), most))
	}
	if !req.GetAnyBase() {
		if err := catalogue.CheckBase(file.Base, base); err != nil {
			return nil, err
		}
	}
	if _, _, err := a.Store.Get(ctx, spec.GetName()); err == nil {
		return nil, control.Refuse(messages.Reason_REASON_ALREADY_EXISTS,
			fmt.Sprintf("%s is the name of a deployment; give the adapter another name", spec.GetName()))
	}
	return spec, nil
}

// base returns the deployment that an adapter is for.
func (a *AdapterControl) base(ctx context.Context, spec *messages.AdapterSpec) (*messages.DeploymentSpec, error) {
	if spec.GetModel() != "" {
		base, _, err := a.Store.Get(ctx, spec.GetModel())
		if errors.Is(err, store.ErrNotFound) {
			err = control.Refuse(messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("model %q is not deployed; deploy the adapter's base model first", spec.GetModel()))
		}
		return base, err
	}
	config, err := peft.ReadConfig(a.Roots, spec.GetPath())
	if err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	all, err := a.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	var deployed []*messages.DeploymentSpec
	for _, d := range all {
		deployed = append(deployed, d.GetSpec())
	}
	return catalogue.Base(config.Base, deployed)
}

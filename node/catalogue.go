package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/messages"
	"troupe/modelfile/peft"
)

// openCatalogue watches the stored adapters, and waits until all of them are read.
func (n *Node) openCatalogue(ctx context.Context) error {
	life, end := context.WithCancel(context.Background())
	n.closers = append(n.closers, end)
	go func() {
		for life.Err() == nil {
			err := n.store.WatchAdapters(life, n.catalogue.Apply)
			select {
			case <-life.Done():
			case <-time.After(rewatchDelay):
				n.cfg.Log.Warn().Err(err).Msg("store lost; watching adapters again")
			}
		}
	}()
	return n.catalogue.Await(ctx, "", "", func(*messages.AdapterSpec) bool { return true })
}

// Adapters implements control.Backend and gateway.Adapters.
func (n *Node) Adapters(model string) []*messages.AdapterSpec { return n.catalogue.All(model) }

// FindAdapter implements gateway.Adapters.
func (n *Node) FindAdapter(name string, may func(*messages.AdapterSpec) bool) (*messages.AdapterSpec, error) {
	return n.catalogue.Find(name, may)
}

// Adapter implements control.Backend.
func (n *Node) Adapter(name string) (*messages.AdapterSpec, error) {
	a, err := n.catalogue.Find(name, func(*messages.AdapterSpec) bool { return true })
	if a == nil && err == nil {
		err = control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("adapter %q is not registered; adapters.list names the registered ones", name))
	}
	return a, err
}

// RegisterAdapter implements control.Backend and gateway.Adapters. It reads the adapter from the
// files of this node.
func (n *Node) RegisterAdapter(ctx context.Context,
	req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error) {
	return n.register(ctx, req, "")
}

// register registers an adapter. applied is the digest of its entry in the configuration; if it is
// "", the stored digest stays.
func (n *Node) register(ctx context.Context, req *messages.RegisterAdapterRequest,
	applied string) (*messages.AdapterSpec, error) {
	spec, err := n.checkAdapter(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		before, at, err := n.store.Adapter(ctx, spec.GetModel(), spec.GetName())
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case req.GetOnlyNew():
			return nil, control.Refuse(messages.Reason_REASON_ALREADY_EXISTS,
				fmt.Sprintf("adapter %s is already registered", catalogue.Name(spec)))
		}
		spec.Registered, spec.Applied = timestamppb.Now(), cmp.Or(applied, before.GetApplied())
		stored, err := n.store.PutAdapter(ctx, spec, at)
		if errors.Is(err, store.ErrConflict) {
			continue // another node wrote it in the meantime
		}
		if err != nil {
			return nil, err
		}
		n.events.Publish("adapter.registered", catalogue.Name(stored),
			fmt.Sprintf("revision %d, rank %d, %s", stored.GetRevision(), stored.GetRank(), stored.GetPath()))
		return stored, n.awaitCatalogue(ctx, stored, func(a *messages.AdapterSpec) bool {
			return a.GetRevision() >= stored.GetRevision()
		})
	}
}

// checkAdapter resolves the base model of an adapter, checks that they fit, and fills in the fields
// that come from the adapter's files.
func (n *Node) checkAdapter(ctx context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error) {
	spec, err := control.NormalizeAdapter(req.GetAdapter())
	if err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	if spec.Path, err = filepath.Abs(spec.GetPath()); err != nil {
		return nil, err
	}
	if err := n.cfg.Roots.Check(spec.GetPath()); err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	base, err := n.baseDeployment(ctx, spec)
	if err != nil {
		return nil, err
	}
	spec.Model, spec.BaseDigest = base.GetName(), base.GetWeightsDigest()
	file, err := n.residency[0].OpenAdapter(base.GetPath(), spec.GetPath())
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
	if _, _, err := n.store.Get(ctx, spec.GetName()); err == nil {
		return nil, control.Refuse(messages.Reason_REASON_ALREADY_EXISTS,
			fmt.Sprintf("%s is the name of a deployment; give the adapter another name", spec.GetName()))
	}
	return spec, nil
}

// baseDeployment returns the deployment that an adapter is for.
func (n *Node) baseDeployment(ctx context.Context, spec *messages.AdapterSpec) (*messages.DeploymentSpec, error) {
	if spec.GetModel() != "" {
		base, _, err := n.store.Get(ctx, spec.GetModel())
		if errors.Is(err, store.ErrNotFound) {
			err = control.Refuse(messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("model %q is not deployed; deploy the adapter's base model first", spec.GetModel()))
		}
		return base, err
	}
	config, err := peft.ReadConfig(n.cfg.Roots, spec.GetPath())
	if err != nil {
		return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	all, err := n.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	var deployed []*messages.DeploymentSpec
	for _, d := range all {
		deployed = append(deployed, d.GetSpec())
	}
	return catalogue.Base(config.Base, deployed)
}

// PinAdapter implements control.Backend. The revision of the adapter does not change.
func (n *Node) PinAdapter(ctx context.Context, name string, pinned bool) (*messages.AdapterSpec, error) {
	spec, err := n.updateAdapter(ctx, name, func(spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error) {
		if spec.GetPinned() == pinned {
			return spec, nil
		}
		spec.Pinned = pinned
		return n.store.PutAdapter(ctx, spec, at)
	})
	if err != nil {
		return nil, err
	}
	kind := map[bool]string{true: "adapter.pinned", false: "adapter.unpinned"}[pinned]
	n.events.Publish(kind, catalogue.Name(spec), fmt.Sprintf("revision %d", spec.GetRevision()))
	return spec, n.awaitCatalogue(ctx, spec, func(now *messages.AdapterSpec) bool {
		return now.GetRevision() != spec.GetRevision() || now.GetPinned() == pinned
	})
}

// DeleteAdapter implements control.Backend and gateway.Adapters. When it returns, this node's
// gateway refuses new requests for the adapter.
func (n *Node) DeleteAdapter(ctx context.Context, name string) (*messages.AdapterSpec, error) {
	spec, err := n.updateAdapter(ctx, name, func(spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error) {
		return spec, n.store.DeleteAdapter(ctx, spec.GetModel(), spec.GetName(), at)
	})
	if err != nil {
		return nil, err
	}
	n.events.Publish("adapter.deleted", catalogue.Name(spec), "requests that use it finish")
	return spec, n.awaitCatalogue(ctx, spec, func(now *messages.AdapterSpec) bool {
		return now.GetRevision() != spec.GetRevision()
	})
}

// awaitCatalogue waits until this node's catalogue has a stored change of an adapter.
func (n *Node) awaitCatalogue(ctx context.Context, spec *messages.AdapterSpec,
	ok func(*messages.AdapterSpec) bool) error {
	if err := n.catalogue.Await(ctx, spec.GetModel(), spec.GetName(), ok); err != nil {
		return control.Refuse(messages.Reason_REASON_DEADLINE, fmt.Sprintf(
			"the change of adapter %s is stored, but this node has not seen it yet: %v; do not repeat the request",
			catalogue.Name(spec), err))
	}
	return nil
}

// updateAdapter changes a stored adapter. It calls change again after a concurrent write.
func (n *Node) updateAdapter(ctx context.Context, name string,
	change func(spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error)) (*messages.AdapterSpec, error) {
	known, err := n.Adapter(name)
	if err != nil {
		return nil, err
	}
	for {
		spec, at, err := n.store.Adapter(ctx, known.GetModel(), known.GetName())
		if errors.Is(err, store.ErrNotFound) {
			return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("adapter %s is no longer registered", catalogue.Name(known)))
		}
		if err != nil {
			return nil, err
		}
		if spec, err = change(spec, at); !errors.Is(err, store.ErrConflict) {
			return spec, err
		}
	}
}

// AdapterStats implements control.Backend.
func (n *Node) AdapterStats(ctx context.Context, model string) (*messages.AdapterStatsResponse, error) {
	t, err := ask[*messages.ClusterView](ctx, n, routerID, &messages.GetClusterView{})
	if err != nil {
		return nil, err
	}
	return n.catalogue.Stats(model, t.GetReplicas()), nil
}

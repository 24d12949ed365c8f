package backend

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/node/adapteruse"
)

// AdapterStore is the part of the store that adapters need.
type AdapterStore interface {
	// Get returns a deployment and its revision.
	Get(ctx context.Context, name string) (*messages.DeploymentSpec, uint64, error)
	// Adapter returns an adapter and the revision of its key.
	Adapter(ctx context.Context, model, name string) (*messages.AdapterSpec, uint64, error)
	PutAdapter(ctx context.Context, spec *messages.AdapterSpec, at uint64) (*messages.AdapterSpec, error)
	DeleteAdapter(ctx context.Context, model, name string, at uint64) error
}

// AdapterControl implements control.AdapterBackend and gateway.Adapters.
type AdapterControl struct {
	Store     AdapterStore
	Catalogue *catalogue.Catalogue
	Roots     modelfile.Roots
	// Open reads the files of an adapter for a base model.
	Open        func(base, path string) (engine.AdapterFile, error)
	Deployments func(ctx context.Context) ([]*messages.DeploymentStatus, error)
	Cluster     func(ctx context.Context) (*messages.ClusterView, error)
	Publish     Publish
	Runtime     supervise.Runtime
	Use         *adapteruse.Record // of the adapters of this node
}

// Adapters implements control.Backend and gateway.Adapters.
func (a *AdapterControl) Adapters(model string) []*messages.AdapterSpec {
	return a.Catalogue.All(model)
}

// FindAdapter implements gateway.Adapters.
func (a *AdapterControl) FindAdapter(name string, may func(*messages.AdapterSpec) bool) (*messages.AdapterSpec, error) {
	return a.Catalogue.Find(name, may)
}

// Adapter implements control.Backend.
func (a *AdapterControl) Adapter(name string) (*messages.AdapterSpec, error) {
	found, err := a.Catalogue.Find(name, func(*messages.AdapterSpec) bool { return true })
	if found == nil && err == nil {
		err = control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("adapter %q is not registered; adapters.list names the registered ones", name))
	}
	return found, err
}

// AdapterUses implements control.Backend.
func (a *AdapterControl) AdapterUses(req *messages.NodeAdaptersRequest) (all []*messages.AdapterUse) {
	for _, u := range a.Use.All(req.GetModel(), req.GetAdapter()) {
		spec := messages.AdapterOf(u.Adapter)
		use := &messages.AdapterUse{
			Name: spec.GetName(), Model: u.Model, Revision: spec.GetRevision(), Sequences: u.Sequences, Loads: u.Loads,
		}
		if !u.LastUsed.IsZero() {
			use.LastUsed = timestamppb.New(u.LastUsed)
		}
		all = append(all, use)
	}
	return all
}

// mostPopular is the number of adapters of which the planner learns.
const mostPopular = 256

// Popular returns the recent requests for adapters at this node.
func (a *AdapterControl) Popular() (all []*messages.AdapterDemand) {
	for _, u := range a.Use.Popular(mostPopular, a.Runtime.Now()) {
		all = append(all, &messages.AdapterDemand{Model: u.Model, Adapter: u.Adapter, Uses: u.Uses,
			LastUsed: timestamppb.New(u.LastUsed)})
	}
	return all
}

// AdapterStats implements control.Backend.
func (a *AdapterControl) AdapterStats(ctx context.Context, model string) (*messages.AdapterStatsResponse, error) {
	t, err := a.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	return a.Catalogue.Stats(model, t.GetReplicas()), nil
}

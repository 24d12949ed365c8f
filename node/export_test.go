package node

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/session"
	"troupe/control"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/node/backend"
	"troupe/node/query"
)

// Call opens a session for a client, bypassing the gateway.
func (n *Node) Call(id string, client session.Client, seq *messages.SequenceSpec) (*actor.PID, error) {
	return n.parts.system.Root.SpawnNamed(session.Props(session.Config{
		RequestID: id, Sequence: seq, Client: client, Router: query.Local(n.parts.system, query.Router),
		Log: n.parts.cfg.Log,
	}), "call-"+id)
}

// Holds reports whether an adapter is on a device for a lease.
func (n *Node) Holds(gpu, lease, key string) bool {
	_, err := n.parts.gpus.Adapter(gpu, lease, key)
	return err == nil
}

// Secret returns the cluster secret that this node knows.
func (n *Node) Secret() []byte {
	value, _ := n.parts.secret.Get()
	return value
}

// CheckStore sets the check before each access to the store.
func (n *Node) CheckStore(check func() error) { n.parts.store.SetPrecheck(check) }

// Revise exports the function that models.deploy applies to a deployment.
var Revise = backend.Revise

// PutDeployment stores a deployment as given, in place of a stored one.
func (n *Node) PutDeployment(ctx context.Context, spec *messages.DeploymentSpec, ifRevision uint64) (uint64, error) {
	replace := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		next := proto.CloneOf(spec).Complete()
		next.Applied = stored.GetApplied()
		n.Backend().Revise(next, stored)
		return next, nil
	}
	done, err := n.Backend().Update(ctx, spec.GetName(), ifRevision, replace)
	return done.Revision, err
}

// Scale stores the number of replicas of a deployment, as models.scale does.
func (n *Node) Scale(ctx context.Context, name string, replicas uint32) (*messages.DeploymentSpec, uint64, error) {
	scale := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		next, err := control.Merge(stored, &messages.DeploymentSpec{Name: name, Replicas: new(replicas)}, nil)
		if err != nil {
			return nil, err
		}
		return control.Normalize(next)
	}
	done, err := n.Backend().Update(ctx, name, 0, scale)
	return done.After, done.Revision, err
}

// MetricDescriptions returns the descriptions of all metrics, as prometheus.Desc prints them.
func (n *Node) MetricDescriptions() (all []string) {
	to := make(chan *prometheus.Desc)
	go func() { n.parts.metrics.Describe(to); close(to) }()
	for d := range to {
		all = append(all, d.String())
	}
	return all
}

// MetricsAddr returns the address of the listener for scrapers; empty: there is none.
func (n *Node) MetricsAddr() string { return n.parts.web.MetricsAddress() }

// Residency returns the models in the memory of each device, by the device's index.
func (n *Node) Residency() []*residency.Store { return n.parts.gpus.Models() }

// Status returns the object that queries the actors of this node for their state.
func (n *Node) Status() *backend.Status { return n.parts.control.status }

// StepNames returns the names of the steps of a start.
func StepNames(cfg Config) (all []string) {
	for _, s := range newParts(cfg.withDefaults()).steps() {
		all = append(all, s.Name)
	}
	return all
}

// StartFailing starts a node on which the step with the given name fails. It returns the names of
// the steps that were stopped, except those that have nothing to stop.
func StartFailing(ctx context.Context, cfg Config, name string, failure error) (stopped []string, err error) {
	p := newParts(cfg.withDefaults())
	all := p.steps()
	for i, s := range all {
		if s.Name == name {
			all[i].Start = func(context.Context) error { return failure }
		}
		if s.Stop != nil {
			all[i].Stop = func() {
				stopped = append(stopped, s.Name)
				s.Stop()
			}
		}
	}
	_, err = run(ctx, p, all)
	return stopped, err
}

// HostCache returns the images of weights in host memory.
func (n *Node) HostCache() *residency.HostCache { return n.parts.gpus.Images() }

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
)

// Call opens a session for a client, bypassing the gateway.
func (n *Node) Call(id string, client session.Client, seq *messages.SequenceSpec) (*actor.PID, error) {
	return n.system.Root.SpawnNamed(session.Props(session.Config{
		RequestID: id, Sequence: seq, Client: client, Router: n.pid(routerID), Log: n.cfg.Log,
	}), "call-"+id)
}

// Holds reports whether an adapter is on a device for a lease.
func (n *Node) Holds(gpu, lease, key string) bool {
	_, err := n.adapterOnDevice(gpu, lease, key)
	return err == nil
}

// Secret returns the cluster secret that this node knows.
func (n *Node) Secret() []byte {
	value, _ := n.secret.get()
	return value
}

// CheckStore sets the check before each access to the store.
func (n *Node) CheckStore(check func() error) { n.store.SetPrecheck(check) }

// Revise exports revise, which models.deploy applies to a deployment.
var Revise = revise

// PutDeployment stores a deployment as given, in place of a stored one.
func (n *Node) PutDeployment(ctx context.Context, spec *messages.DeploymentSpec, ifRevision uint64) (uint64, error) {
	replace := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		next := proto.CloneOf(spec).Complete()
		next.Applied = stored.GetApplied()
		n.Revise(next, stored)
		return next, nil
	}
	done, err := n.Update(ctx, spec.GetName(), ifRevision, replace)
	return done.Revision, err
}

// Scale stores the number of replicas of a deployment, as models.scale does.
func (n *Node) Scale(ctx context.Context, name string, replicas uint32) (*messages.DeploymentSpec, uint64, error) {
	done, err := n.Update(ctx, name, 0, func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		next, err := control.Merge(stored, &messages.DeploymentSpec{Name: name, Replicas: new(replicas)}, nil)
		if err != nil {
			return nil, err
		}
		return control.Normalize(next)
	})
	return done.After, done.Revision, err
}

// MetricDescriptions returns the descriptions of all metrics, as prometheus.Desc prints them.
func (n *Node) MetricDescriptions() (all []string) {
	to := make(chan *prometheus.Desc)
	go func() { n.metrics.Describe(to); close(to) }()
	for d := range to {
		all = append(all, d.String())
	}
	return all
}

// MetricsAddr returns the address of the listener for scrapers; empty: there is none.
func (n *Node) MetricsAddr() string { return n.metricsAddress }

// Residency returns the models in the memory of each device, by the device's index.
func (n *Node) Residency() []*residency.Store { return n.residency }

package node

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/session"
	"troupe/control"
	"troupe/messages"
)

// Call opens a session for a client, without the gateway.
func (n *Node) Call(id string, client session.Client, seq *messages.SequenceSpec) (*actor.PID, error) {
	return n.system.Root.SpawnNamed(session.Props(session.Config{
		RequestID: id, Sequence: seq, Client: client, Router: n.pid(routerID), Log: n.cfg.Log,
	}), "call-"+id)
}

// Holds reports whether an adapter is on a device, for a lease.
func (n *Node) Holds(gpu, lease, key string) bool {
	_, err := n.adapter(gpu, lease, key)
	return err == nil
}

// Secret returns the cluster secret as this node knows it.
func (n *Node) Secret() []byte {
	value, _ := n.secret.get()
	return value
}

// CheckStore replaces what is asked before a key of the store is read or written.
func (n *Node) CheckStore(check func() error) { n.store.SetPrecheck(check) }

// Revise is what models.deploy does to a deployment.
var Revise = revise

// PutDeployment stores a deployment as it is, in place of one that is stored.
func (n *Node) PutDeployment(ctx context.Context, spec *messages.DeploymentSpec, ifRevision uint64) (uint64, error) {
	done, err := n.Update(ctx, spec.GetName(), ifRevision, func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		next := proto.CloneOf(spec).Complete()
		next.Applied = stored.GetApplied()
		n.Revise(next, stored)
		return next, nil
	})
	return done.Revision, err
}

// Scale stores how many replicas a deployment is to have, as models.scale does.
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

package troupe

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/session"
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
func (n *Node) CheckStore(check func() error) { n.store.Check(check) }

// Revise is what models.deploy does to a deployment.
var Revise = revise

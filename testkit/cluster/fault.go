package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/messages"
)

// Kind is what can happen to a cluster.
type Kind string

// The faults, and what mends them.
const (
	Kill         Kind = "kill"          // kill -9 of a node; started again
	Stop         Kind = "stop"          // SIGSTOP of a node; SIGCONT
	Restart      Kind = "restart"       // orderly end of a node and start; noop to mend
	Cut          Kind = "cut"           // partition between two nodes; healed
	CutOneWay    Kind = "cut one way"   // the same, from one to the other alone
	Isolate      Kind = "isolate"       // a node from everything; healed
	Slow         Kind = "slow"          // 100 ms on all that goes from and to a node; healed
	Lossy        Kind = "lossy"         // a packet in twenty of a node is lost; healed
	CrashReplica Kind = "crash replica" // replicas.restart of one; noop to mend
	Migrate      Kind = "migrate"       // replicas.migrate of all sequences of a replica; noop to mend
	Drain        Kind = "drain"         // nodes.drain; nodes.undrain
	KillNATS     Kind = "kill nats"     // kill -9 of the external nats-server; started again
)

const (
	slowDelay    = 100 * time.Millisecond
	lossShare    = 0.05
	startTimeout = 30 * time.Second // a node, or what it is asked to do
)

// Fault is something to happen.
type Fault struct {
	Kind  Kind
	On    string // the node or replica
	Other string // the other node of a cut
}

func (f Fault) String() string {
	switch {
	case f.Kind == CutOneWay:
		return fmt.Sprintf("cut %s → %s", f.On, f.Other)
	case f.Other != "":
		return fmt.Sprintf("%s %s, %s", f.Kind, f.On, f.Other)
	case f.On == "":
		return string(f.Kind)
	}
	return fmt.Sprintf("%s %s", f.Kind, f.On)
}

// Inject lets a fault happen. The function that it returns mends it, and waits until what was started again is up.
func (c *Cluster) Inject(ctx context.Context, f Fault) (mend func(context.Context) error, err error) {
	switch f.Kind {
	case Kill, Stop, Restart:
		return c.injectNode(ctx, f)
	case Cut, CutOneWay, Isolate, Slow, Lossy:
		return c.injectLink(f)
	case KillNATS:
		return c.Server.Start, c.Server.Process().Kill()
	case CrashReplica:
		return noop, c.RestartReplica(ctx, f.On)
	case Migrate:
		return noop, c.Call(ctx, "replicas.migrate", &messages.MigrateReplicaRequest{From: f.On}, &messages.MigrateReplicaResponse{})
	case Drain:
		return c.injectDrain(ctx, f)
	}
	return nil, fmt.Errorf("fault %q is not known", f.Kind)
}

func noop(context.Context) error { return nil }

func (c *Cluster) injectNode(ctx context.Context, f Fault) (mend func(context.Context) error, err error) {
	n := c.Node(f.On)
	if n == nil {
		return nil, fmt.Errorf("%s: there is no such node", f)
	}
	switch f.Kind {
	case Kill:
		return n.Start, n.Process().Kill()
	case Stop:
		p := n.Process()
		return func(context.Context) error { return p.Continue() }, p.Stop()
	default:
		return noop, n.Restart(ctx)
	}
}

func (c *Cluster) injectDrain(ctx context.Context, f Fault) (mend func(context.Context) error, err error) {
	return func(ctx context.Context) error {
			return Until(ctx, func() error {
				return c.Call(ctx, "nodes.undrain", &messages.UndrainNodeRequest{Name: f.On}, &messages.UndrainNodeResponse{})
			})
		}, Until(ctx, func() error {
			return c.Call(ctx, "nodes.drain", &messages.DrainNodeRequest{Name: f.On}, &messages.DrainNodeResponse{})
		})
}

func (c *Cluster) injectLink(f Fault) (mend func(context.Context) error, err error) {
	if c.Fabric == nil {
		return nil, fmt.Errorf("%s: the nodes are on loopback, where every link is perfect", f)
	}
	switch f.Kind {
	case Cut:
		c.Fabric.SetBoth(f.On, f.Other, Link{Cut: true})
	case CutOneWay:
		c.Fabric.Set(f.On, f.Other, Link{Cut: true})
	case Isolate:
		c.Fabric.SetAll(f.On, Link{Cut: true})
	case Slow:
		c.Fabric.SetAll(f.On, Link{Delay: slowDelay})
	case Lossy:
		c.Fabric.SetAll(f.On, Link{Loss: lossShare})
	}
	return func(context.Context) error { c.Fabric.Heal(); return nil }, nil
}

// WaitRecovered waits until the cluster is as it was before a fault: all living nodes are members, and the model has all its replicas.
func (c *Cluster) WaitRecovered(ctx context.Context) error {
	return errors.Join(wrap(c.WaitMembers(ctx), "members"), wrap(c.WaitReady(ctx, ModelName), "replicas"))
}

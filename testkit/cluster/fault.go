package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/messages"
)

// Kind is a kind of fault.
type Kind string

// The faults, and how each is undone.
const (
	Kill         Kind = "kill"          // kill -9 of a node; undone by a start
	Stop         Kind = "stop"          // SIGSTOP of a node; undone by SIGCONT
	Restart      Kind = "restart"       // graceful stop and start of a node; nothing to undo
	Cut          Kind = "cut"           // partition between two nodes; undone by healing the network
	CutOneWay    Kind = "cut one way"   // partition in one direction; undone by healing the network
	Isolate      Kind = "isolate"       // partition of a node from all hosts; undone by healing the network
	Slow         Kind = "slow"          // 100 ms delay on all links of a node; undone by healing the network
	Lossy        Kind = "lossy"         // 5% packet loss on all links of a node; undone by healing the network
	CrashReplica Kind = "crash replica" // replicas.restart of a replica; nothing to undo
	Migrate      Kind = "migrate"       // replicas.migrate of all sequences of a replica; nothing to undo
	Drain        Kind = "drain"         // nodes.drain; undone by nodes.undrain
	KillNATS     Kind = "kill nats"     // kill -9 of the external nats-server; undone by a start
)

const (
	slowDelay = 100 * time.Millisecond
	lossShare = 0.05
)

// Fault is a fault to inject.
type Fault struct {
	Kind  Kind
	On    string // node or replica that fails
	Other string // other node of a cut
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

// Inject injects a fault. The returned function undoes it and waits until restarted processes are
// up.
func (c *Cluster) Inject(ctx context.Context, f Fault) (undo func(context.Context) error, err error) {
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
		return noop, c.Call(ctx, "replicas.migrate", &messages.MigrateReplicaRequest{From: f.On},
			&messages.MigrateReplicaResponse{})
	case Drain:
		return c.injectDrain(ctx, f)
	}
	return nil, fmt.Errorf("unknown fault %q", f.Kind)
}

func noop(context.Context) error { return nil }

func (c *Cluster) injectNode(ctx context.Context, f Fault) (undo func(context.Context) error, err error) {
	n := c.Node(f.On)
	if n == nil {
		return nil, fmt.Errorf("%s: no such node", f)
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

func (c *Cluster) injectDrain(ctx context.Context, f Fault) (undo func(context.Context) error, err error) {
	return func(ctx context.Context) error {
			return Until(ctx, func() error {
				return c.Call(ctx, "nodes.undrain", &messages.UndrainNodeRequest{Name: f.On},
					&messages.UndrainNodeResponse{})
			})
		}, Until(ctx, func() error {
			return c.Call(ctx, "nodes.drain", &messages.DrainNodeRequest{Name: f.On}, &messages.DrainNodeResponse{})
		})
}

func (c *Cluster) injectLink(f Fault) (undo func(context.Context) error, err error) {
	if c.Fabric == nil {
		return nil, fmt.Errorf("%s: links on loopback cannot be impaired; set Config.Isolated", f)
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

// WaitRecovered waits until all live nodes are members and the model has all its replicas.
func (c *Cluster) WaitRecovered(ctx context.Context) error {
	return errors.Join(wrap(c.WaitMembers(ctx), "members"), wrap(c.WaitReady(ctx, ModelName), "replicas"))
}

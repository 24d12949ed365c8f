package node

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/cluster"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/node/membership"
	"troupe/node/query"
	"troupe/node/stored"
)

// linkStopTimeout is the maximum time for stopping the link to the other nodes.
const linkStopTimeout = 2 * time.Second

// clientOnlyProvider is a provider that follows the members but does not register this node,
// because its actors do not run yet.
type clientOnlyProvider struct{ cluster.ClusterProvider }

// StartMember implements cluster.ClusterProvider.
func (p clientOnlyProvider) StartMember(c *cluster.Cluster) error { return p.StartClient(c) }

// openLink connects the actor system to those of the other nodes. They can reach this node's actors
// once it has joined.
func (p *parts) openLink(ctx context.Context) (err error) {
	cfg := link.Config{
		System: p.system, Listen: p.cfg.ClusterListen, Advertise: p.advertised(p.cfg.ClusterListen),
		Provider: clientOnlyProvider{p.members.Provider()}, Lookup: p.members.Lookup(), Log: p.cfg.Log,
		Runtime: p.cfg.Runtime,
	}
	if p.cfg.TLS != nil {
		cfg.ServerTLS, cfg.ClientTLS = p.cfg.TLS.Node(), p.cfg.TLS.ClientOf
	}
	if p.link, err = link.Start(ctx, cfg); err != nil {
		return fmt.Errorf("%w; give another address with --cluster-listen", err)
	}
	return nil
}

func (p *parts) closeLink() {
	ctx, cancel := p.cfg.Runtime.WithTimeout(context.Background(), linkStopTimeout)
	defer cancel()
	p.link.Stop(ctx)
}

// subscribe starts passing on changes of the members.
func (p *parts) subscribe(context.Context) error {
	p.changes = membership.Changes{
		Nodes: p.nodes, Link: p.link, Bus: p.bus, Audit: p.audit, Publish: p.publish, Log: p.cfg.Log,
		Send: func(now *messages.MembersChanged) {
			for _, id := range []string{query.Router, query.Deployments, query.Usage} {
				p.system.Root.Send(query.Local(p.system, id), now)
			}
		},
	}
	p.unwatch = p.members.Subscribe(p.changes.On)
	return nil
}

// follow starts following the desired state that this node keeps in memory.
func (p *parts) follow(ctx context.Context) error {
	p.following = stored.NewFollowers(p.cfg.Runtime, p.cfg.Log)
	canaries := &stored.Canaries{
		Records: p.canaries, Store: p.store, Publish: p.publish, Runtime: p.cfg.Runtime, Log: p.cfg.Log,
	}
	return p.following.Follow(ctx, p.drained.Watch(p.store, p.changes.OnDrained), p.plannerPause.Watch(p.store),
		p.pins.Watch(p.store), p.secret.Watch(), canaries.Watch())
}

// join makes the node a member.
func (p *parts) join(ctx context.Context) error {
	if err := p.members.Join(ctx, p.system.Address()); err != nil {
		return err
	}
	p.store.SetPrecheck(p.availability.Check)
	return nil
}

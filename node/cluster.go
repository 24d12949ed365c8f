package node

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/link"
	"troupe/cluster/members"
	"troupe/cluster/store"
	"troupe/messages"
)

const (
	rewatchDelay = time.Second // before a broken watch of the store is opened again
	// for the router to learn of the replicas of other nodes; longer than it takes to detect a dead
	// node
	routesTimeout     = 2 * time.Second
	linkStopTimeout   = 2 * time.Second
	leavingTimeout    = 3 * time.Second // for the other nodes to learn that this node leaves
	rescheduleTimeout = 3 * time.Second // for an idle replica of a leaving node to be placed on another node
)

// openMembers opens the membership registry. The node joins later, when its actors run.
func (n *Node) openMembers(ctx context.Context, js jetstream.JetStream) (err error) {
	seen, limit := n.store.Terms()
	n.members, err = members.Open(ctx, js, members.Config{
		Name: n.cfg.Name, Instance: n.cfg.Instance, Describe: n.describe, Log: n.cfg.Log,
		SeenTerm: seen, TermLimit: limit,
		OnEvent: func(kind, detail string) { n.events.Publish(kind, members.Bucket, detail) },
	})
	if err != nil {
		return err
	}
	n.closers = append(n.closers, n.members.Close)
	n.inboxes.setAnnounce(n.members.Describe)
	return n.store.TrackTerms(ctx, n.members.HighestTerm)
}

// describe fills in the member record of this node.
func (n *Node) describe(m *messages.Member) {
	m.HttpUrl, m.DataAddress, m.Version = "http://"+n.advertised(n.address), n.bulk.Address(), n.cfg.Version
	m.Started = timestamppb.New(n.started)
	if n.nats != nil {
		m.NatsUrl = n.nats.URL()
	}
	m.InboxPrefixes = n.inboxes.ownPrefixes()
	m.Gpus = nil
	for i := range n.devices {
		m.Gpus = append(m.Gpus, gpuName(i))
	}
}

// advertised returns an address as other nodes reach it.
func (n *Node) advertised(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && n.cfg.Advertise != "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return net.JoinHostPort(n.cfg.Advertise, port)
		}
	}
	return address
}

// startLink connects the actor system to those of the other nodes. They reach this node's actors
// once it has joined.
func (n *Node) startLink(ctx context.Context) (err error) {
	cfg := link.Config{
		System: n.system, Listen: n.cfg.ClusterListen, Advertise: n.advertised(n.cfg.ClusterListen),
		Provider: clientOnlyProvider{n.members.Provider()}, Lookup: n.members.Lookup(), Log: n.cfg.Log,
	}
	if n.cfg.TLS != nil {
		cfg.ServerTLS, cfg.ClientTLS = n.cfg.TLS.Node(), n.cfg.TLS.ClientOf
	}
	if n.link, err = link.Start(ctx, cfg); err != nil {
		return fmt.Errorf("%w; give another address with --cluster-listen", err)
	}
	n.closers = append(n.closers, func() {
		stop, cancel := context.WithTimeout(context.Background(), linkStopTimeout)
		defer cancel()
		n.link.Stop(stop)
	})
	return nil
}

// clientOnlyProvider is a provider that follows the members but does not register the node, whose
// actors do not run yet.
type clientOnlyProvider struct{ cluster.ClusterProvider }

// StartMember implements cluster.ClusterProvider.
func (p clientOnlyProvider) StartMember(c *cluster.Cluster) error { return p.StartClient(c) }

// join makes the node a member and starts to inform its actors of the other members.
func (n *Node) join(ctx context.Context) error {
	life, end := context.WithCancel(context.Background())
	n.closers = append(n.closers, end, n.members.Subscribe(n.onMembers))
	if err := n.startWatches(ctx, life, n.watchNodes, n.watchPins, n.watchSecret); err != nil {
		return err
	}
	if err := n.members.Join(ctx, n.system.Address()); err != nil {
		return err
	}
	n.store.SetPrecheck(n.checkStore)
	return nil
}

// startWatches starts watches of the store and waits until each of them has read the stored state.
// ctx bounds the wait, and life the watches.
func (n *Node) startWatches(ctx, life context.Context, watches ...func(life context.Context, synced func())) error {
	for _, watch := range watches {
		synced := make(chan struct{})
		go watch(life, sync.OnceFunc(func() { close(synced) }))
		select {
		case <-synced:
		case <-ctx.Done():
			return fmt.Errorf("reading nodes, pins and the cluster secret from the store: %w", ctx.Err())
		}
	}
	return nil
}

// onMembers passes a change of the members on to the link, the inboxes, the audit log and the
// actors.
func (n *Node) onMembers(c members.Change) {
	addresses := make([]string, len(c.Live))
	for i, m := range c.Live {
		addresses[i] = m.GetAddress()
	}
	n.link.SetMembers(addresses)
	n.inboxes.setMembers(c.Live)
	n.auditMembers(c.Live, c.Left)
	for _, m := range c.Left {
		n.cfg.Log.Info().Str("member", m.GetName()).Msg("member left")
	}
	if c.Rejoined {
		n.events.Publish("node.rejoined", n.cfg.Name, "the other nodes presumed it dead and took its leases over")
	}
	n.sendMembers(c.Left)
}

// sendMembers sends the current members to the actors of this node that need them.
func (n *Node) sendMembers(left []*messages.Member) {
	now := n.currentMembers()
	now.Left = left
	for _, id := range []string{routerID, deploymentsID, usageID} {
		n.system.Root.Send(n.pid(id), now)
	}
}

// currentMembers returns the live members and the names of the nodes being drained.
func (n *Node) currentMembers() *messages.MembersChanged {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := &messages.MembersChanged{Members: n.members.Live()}
	for name := range n.draining {
		now.Draining = append(now.Draining, name)
	}
	return now
}

// isDraining reports whether an operator is draining this node.
func (n *Node) isDraining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draining[n.cfg.Name]
}

// watchNodes follows which nodes the operator drains.
func (n *Node) watchNodes(ctx context.Context, synced func()) {
	for ctx.Err() == nil {
		err := n.store.WatchNodes(ctx, func(c store.NodeChange) {
			if c.Synced {
				synced()
				return
			}
			n.mu.Lock()
			if delete(n.draining, c.Name); c.Spec.GetDraining() {
				n.draining[c.Name] = true
			}
			n.mu.Unlock()
			n.sendMembers(nil)
		})
		select {
		case <-ctx.Done():
		case <-time.After(rewatchDelay):
			n.cfg.Log.Warn().Err(err).Msg("store lost; watching nodes again")
		}
	}
}

// leases implements deployment.Leases with the roles of the members. The planner uses it too.
type leases struct{ members *members.Members }

func (l leases) Holder(role string) (string, uint64) {
	m, term, ok := l.members.Holder(role)
	if !ok {
		return "", 0
	}
	return m.GetName(), term
}

func (l leases) Roles() []string { return l.members.Roles() }

func (l leases) Acquire(ctx context.Context, role string) (bool, error) {
	_, ok, err := l.members.Acquire(ctx, role)
	return ok, err
}

func (l leases) Release(ctx context.Context, role string, term uint64) error {
	return l.members.Release(ctx, role, term)
}

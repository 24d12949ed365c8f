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
	watchAgain     = time.Second     // before the store is watched again
	informedWithin = 2 * time.Second // by the other nodes, before this one answers for the cluster; longer than a death takes to be noticed
	leaveWithin    = 2 * time.Second
	tellWithin     = 3 * time.Second // the others, that this node leaves
	roomWithin     = 3 * time.Second // to be found elsewhere for an idle replica of a node that leaves
)

// openMembers opens the register of members. The node is not one yet: it joins once its actors are there.
func (n *Node) openMembers(ctx context.Context, js jetstream.JetStream) (err error) {
	seen, limit := n.store.Terms()
	n.members, err = members.Open(ctx, js, members.Config{Name: n.cfg.Name, Instance: n.cfg.Instance, Describe: n.describe, Log: n.cfg.Log,
		SeenTerm: seen, TermLimit: limit,
		OnEvent: func(kind, detail string) { n.events.Publish(kind, members.Bucket, detail) }})
	if err != nil {
		return err
	}
	n.undo = append(n.undo, n.members.Close)
	n.inboxes.announceBy(n.members.Describe)
	return n.store.TrackTerms(ctx, n.members.HighestTerm)
}

// describe fills in what others should know of this node.
func (n *Node) describe(m *messages.Member) {
	m.HttpUrl, m.DataAddress, m.Version = "http://"+n.advertised(n.address), n.bulk.Address(), n.cfg.Version
	m.Started = timestamppb.New(n.started)
	if n.nats != nil {
		m.NatsUrl = n.nats.URL()
	}
	m.InboxPrefixes = n.inboxes.here()
	m.Gpus = nil
	for i := range n.devices {
		m.Gpus = append(m.Gpus, gpuName(i))
	}
}

// advertised is an address as others reach it.
func (n *Node) advertised(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && n.cfg.Advertise != "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return net.JoinHostPort(n.cfg.Advertise, port)
		}
	}
	return address
}

// startLink makes the actors of other nodes reachable, and those of this one once it has joined.
func (n *Node) startLink(ctx context.Context) (err error) {
	cfg := link.Config{
		System: n.system, Listen: n.cfg.ClusterListen, Advertise: n.advertised(n.cfg.ClusterListen),
		Provider: quiet{n.members.Provider()}, Lookup: n.members.Lookup(), Log: n.cfg.Log,
	}
	if n.cfg.TLS != nil {
		cfg.ServerTLS, cfg.ClientTLS = n.cfg.TLS.Node(), n.cfg.TLS.ClientOf
	}
	if n.link, err = link.Start(ctx, cfg); err != nil {
		return fmt.Errorf("%w; give another address with --cluster-listen", err)
	}
	n.undo = append(n.undo, func() {
		stop, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		n.link.Stop(stop)
	})
	return nil
}

// quiet is a provider that follows the members, and does not make the node one: its actors are not there yet.
type quiet struct{ cluster.ClusterProvider }

// StartMember implements cluster.ClusterProvider.
func (q quiet) StartMember(c *cluster.Cluster) error { return q.StartClient(c) }

// join makes the node a member, and keeps its actors informed of the others.
func (n *Node) join(ctx context.Context) error {
	life, end := context.WithCancel(context.Background())
	n.undo = append(n.undo, end, n.members.Subscribe(n.onMembers))
	if err := n.follow(ctx, life, n.watchNodes, n.watchPins, n.watchSecret); err != nil {
		return err
	}
	if err := n.members.Join(ctx, n.system.Address()); err != nil {
		return err
	}
	n.store.SetPrecheck(n.checkStore)
	return nil
}

// follow starts watches of the store, and returns when all that was stored is known.
func (n *Node) follow(ctx, life context.Context, watches ...func(life context.Context, synced func())) error {
	for _, watch := range watches {
		synced := make(chan struct{})
		go watch(life, sync.OnceFunc(func() { close(synced) }))
		select {
		case <-synced:
		case <-ctx.Done():
			return fmt.Errorf("what is stored of nodes, pins and the cluster secret: %w", ctx.Err())
		}
	}
	return nil
}

// onMembers passes a change on to whom it concerns.
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
		n.events.Publish("node.rejoined", n.cfg.Name, "it was taken for dead; what it held is others' now")
	}
	n.tellMembers(c.Left)
}

// tellMembers tells the actors of this node who is in the cluster.
func (n *Node) tellMembers(left []*messages.Member) {
	now := n.membersNow()
	now.Left = left
	for _, id := range []string{routerID, deploymentsID, usageID} {
		n.system.Root.Send(n.pid(id), now)
	}
}

// membersNow is who is in the cluster, and which nodes are to be emptied.
func (n *Node) membersNow() *messages.MembersChanged {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := &messages.MembersChanged{Members: n.members.Live()}
	for name := range n.draining {
		now.Draining = append(now.Draining, name)
	}
	return now
}

// emptied reports whether the operator has this node emptied.
func (n *Node) emptied() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draining[n.cfg.Name]
}

// watchNodes follows which nodes are to be emptied.
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
			n.tellMembers(nil)
		})
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
			n.cfg.Log.Warn().Err(err).Msg("store lost, watching nodes again")
		}
	}
}

// leases implement deployment.Leases.
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

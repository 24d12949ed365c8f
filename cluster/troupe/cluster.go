package troupe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/link"
	"troupe/cluster/members"
	"troupe/cluster/store"
	"troupe/messages"
)

// watchAgain is how long to wait before the store is watched again.
const watchAgain = time.Second

// openMembers opens the register of members. The node is not one yet: it joins once its actors are there.
func (n *Node) openMembers(ctx context.Context) (err error) {
	n.members, err = members.Open(ctx, n.js, n.conn, members.Config{
		Name: n.cfg.Name, Instance: n.cfg.Instance, Describe: n.describe, Replicas: n.replicas(), Log: n.cfg.Log,
	})
	if err != nil {
		return err
	}
	n.undo = append(n.undo, n.members.Close)
	return nil
}

// describe fills in what others should know of this node.
func (n *Node) describe(m *messages.Member) {
	m.HttpUrl, m.DataAddress, m.Version = "http://"+n.advertised(n.address), n.bulk.Address(), n.cfg.Version
	m.Started = timestamppb.New(n.started)
	if n.nats != nil {
		m.NatsUrl = n.nats.URL()
	}
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

// startLink makes the actors of this node reachable for others, and theirs for it.
func (n *Node) startLink(ctx context.Context) (err error) {
	n.link, err = link.Start(ctx, link.Config{
		System: n.system, Listen: n.cfg.ClusterListen, Advertise: n.advertised(n.cfg.ClusterListen), Provider: n.members.Provider(), Lookup: n.members.Lookup(),
		ServerTLS: n.tls.Server, ClientTLS: n.tls.Client, Log: n.cfg.Log,
	})
	return err
}

// join makes the node a member, and keeps its actors informed of the others.
func (n *Node) join(ctx context.Context) error {
	life, end := context.WithCancel(context.Background())
	n.undo = append(n.undo, end)
	go n.watchNodes(life)
	n.undo = append(n.undo, n.members.Subscribe(n.onMembers))
	if err := n.members.Join(ctx, n.system.Address()); err != nil {
		return err
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
	for _, id := range []string{routerID, deploymentsID} {
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

// watchNodes follows which nodes are to be emptied.
func (n *Node) watchNodes(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.store.WatchNodes(ctx, func(c store.NodeChange) {
			n.mu.Lock()
			if delete(n.draining, c.Name); c.Spec.GetDraining() {
				n.draining[c.Name] = true
			}
			n.mu.Unlock()
			if !c.Synced {
				n.tellMembers(nil)
			}
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

// connectHint says what to do where no NATS server answers.
func connectHint(urls []string, err error) error {
	return fmt.Errorf("NATS at %s: %w; is the node that --join names running?", strings.Join(urls, ", "), errors.Unwrap(err))
}

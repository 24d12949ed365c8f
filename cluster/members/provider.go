package members

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/cluster"

	"troupe/messages"
)

const joinTimeout = 30 * time.Second

// Provider returns the member provider of a protoactor cluster. A node that rejoins has a new
// member ID.
func (m *Members) Provider() cluster.ClusterProvider { return &provider{members: m} }

type provider struct {
	members *Members
	cancel  func()
}

// StartMember implements cluster.ClusterProvider. It joins with the address of the actor system.
func (p *provider) StartMember(c *cluster.Cluster) error {
	ctx, cancel := p.members.cfg.Runtime.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	if err := p.members.Join(ctx, c.ActorSystem.Address()); err != nil {
		return err
	}
	return p.StartClient(c)
}

// StartClient implements cluster.ClusterProvider. It follows the members without joining.
func (p *provider) StartClient(c *cluster.Cluster) error {
	kinds := c.GetClusterKinds() // all nodes have the same kinds
	p.cancel = p.members.Subscribe(func(change Change) {
		c.MemberList.UpdateClusterTopology(topology(change.Live, kinds))
	})
	return nil
}

// Shutdown implements cluster.ClusterProvider. Without graceful, the node just falls silent.
func (p *provider) Shutdown(graceful bool) error {
	if p.cancel != nil {
		p.cancel()
	}
	if !graceful {
		p.members.Close()
		return nil
	}
	ctx, cancel := p.members.cfg.Runtime.WithTimeout(context.Background(), p.members.cfg.SilentFor)
	defer cancel()
	return p.members.Leave(ctx)
}

// topology converts members to protoactor's type. It omits members with an invalid address, to
// which nothing could be sent.
func topology(live []*messages.Member, kinds []string) cluster.Members {
	var all cluster.Members
	for _, m := range live {
		host, text, err := net.SplitHostPort(m.GetAddress())
		if err != nil {
			continue
		}
		if port, err := strconv.ParseInt(text, 10, 32); err == nil {
			all = append(all, &cluster.Member{Id: m.GetId(), Host: host, Port: int32(port), Kinds: kinds})
		}
	}
	return all
}

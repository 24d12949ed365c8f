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

// Provider returns what tells a protoactor cluster who its members are. A node that joins again has another member id.
func (m *Members) Provider() cluster.ClusterProvider { return &provider{members: m} }

type provider struct {
	members *Members
	cancel  func()
}

// StartMember implements cluster.ClusterProvider: it joins with the address of the actor system.
func (p *provider) StartMember(c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	if err := p.members.Join(ctx, c.ActorSystem.Address()); err != nil {
		return err
	}
	return p.StartClient(c)
}

// StartClient implements cluster.ClusterProvider: it follows the members without being one.
func (p *provider) StartClient(c *cluster.Cluster) error {
	kinds := c.GetClusterKinds() // all nodes are alike
	p.cancel = p.members.Subscribe(func(change Change) {
		c.MemberList.UpdateClusterTopology(topology(change.Live, kinds))
	})
	return nil
}

// Shutdown implements cluster.ClusterProvider. A node that does not go gracefully falls silent.
func (p *provider) Shutdown(graceful bool) error {
	if p.cancel != nil {
		p.cancel()
	}
	if !graceful {
		p.members.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.members.cfg.SilentFor)
	defer cancel()
	return p.members.Leave(ctx)
}

// topology puts members into protoactor's words. One whose address can not be read is left out: nothing could be sent there.
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

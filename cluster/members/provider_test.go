package members

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"

	"troupe/messages"
)

// newCluster returns a protoactor cluster that is not started. The tests use only its member list.
func newCluster(t *testing.T, n *node) *cluster.Cluster {
	t.Helper()
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	config := remote.Configure("127.0.0.1", 0)
	c := cluster.New(system, cluster.Configure("troupe", n.Provider(), n.Lookup(), config))
	c.Remote = remote.NewRemote(system, config)
	system.ProcessRegistry.Address = n.address
	t.Cleanup(system.Shutdown)
	return c
}

// members follows the topology events of a protoactor cluster: ID → address. The cluster's own
// member list cannot be read concurrently.
func members(c *cluster.Cluster) func() map[string]string {
	var mu sync.Mutex
	var last map[string]string
	c.ActorSystem.EventStream.Subscribe(func(event any) {
		if topology, ok := event.(*cluster.ClusterTopology); ok {
			mu.Lock()
			defer mu.Unlock()
			last = map[string]string{}
			for _, m := range topology.Members {
				last[m.Id] = m.Address()
			}
		}
	})
	return func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func TestProvider(t *testing.T) {
	s := startServer(t)
	a, b := s.open("a", nil), s.open("b", nil)
	ca, cb := newCluster(t, a), newCluster(t, b)
	ofA, ofB := members(ca), members(cb)
	pa, pb := a.Provider(), b.Provider()
	for p, c := range map[cluster.ClusterProvider]*cluster.Cluster{pa: ca, pb: cb} {
		if err := p.StartMember(c); err != nil {
			t.Fatal(err)
		}
	}
	old := a.Self().GetId()
	s.until("two members", func() bool { return len(ofA()) == 2 && len(ofB()) == 2 })
	if got := ofB()[old]; got != ca.ActorSystem.Address() {
		t.Errorf("a is at %q, not %s", got, ca.ActorSystem.Address())
	}
	s.settle()
	a.apart = true
	a.writeMu.Lock()
	s.until("a is dead", func() bool { return len(ofB()) == 1 })
	a.writeMu.Unlock()
	a.apart = false
	s.until("a is back as another member", func() bool { return len(ofB()) == 2 && ofB()[old] == "" })
	if err := pa.Shutdown(true); err != nil {
		t.Fatal(err)
	}
	s.until("a has left", func() bool { return len(ofB()) == 1 })
	if err := pb.Shutdown(true); err != nil {
		t.Fatal(err)
	}
}

func TestLookup(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b")
	c := newCluster(t, n[1])
	lookup := n[1].Lookup()
	lookup.Setup(c, nil, false)
	defer lookup.Shutdown()
	id := cluster.NewClusterIdentity("m", DeploymentKind)
	if got := lookup.Get(id); got != nil {
		t.Errorf("without a holder the actor is at %v", got)
	}
	for i, want := range []string{n[0].address, n[1].address} {
		term, ok, err := n[i].Acquire(t.Context(), DeploymentRole+"m")
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.until("the actor is found", func() bool { return lookup.Get(id).GetAddress() == want })
		if pid := lookup.Get(id); pid.GetId() != "node/deployments/m" {
			t.Errorf("the PID is %v", pid)
		}
		c.PidCache.Set("m", DeploymentKind, lookup.Get(id)) // as protoactor does
		if err := n[i].Release(t.Context(), DeploymentRole+"m", term); err != nil {
			t.Fatal(err)
		}
		s.until("the PID is no longer cached", func() bool {
			_, kept := c.PidCache.Get("m", DeploymentKind)
			return !kept
		})
	}
	if got := lookup.Get(cluster.NewClusterIdentity("m", "topic")); got != nil {
		t.Errorf("another kind is at %v", got)
	}
}

func TestTopologyOmitsInvalidAddresses(t *testing.T) {
	got := topology(
		[]*messages.Member{
			{Id: "a.1", Address: "[::1]:80"},
			{Id: "b.1", Address: "nowhere"},
			{Id: "c.1", Address: "c:port"},
		},
		[]string{"k"},
	)
	if len(got) != 1 || got[0].Id != "a.1" || got[0].Host != "::1" || got[0].Port != 80 || !got[0].HasKind("k") {
		t.Errorf("%v", got)
	}
}

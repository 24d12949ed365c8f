package members

import (
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"

	"troupe/messages"
)

// newCluster is a protoactor cluster that is not started: its member list is all that is of interest here.
func newCluster(t *testing.T, n *node) *cluster.Cluster {
	t.Helper()
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	config := remote.Configure("127.0.0.1", 0)
	c := cluster.New(system, cluster.Configure("troupe", n.Provider(), n.Lookup(), config))
	c.Remote = remote.NewRemote(system, config)
	c.Remote.Start()
	t.Cleanup(func() {
		c.Remote.Shutdown(true)
		system.Shutdown()
	})
	return c
}

func TestProvider(t *testing.T) {
	s := startSite(t)
	a, b := s.open("a", nil), s.open("b", nil)
	ca, cb := newCluster(t, a), newCluster(t, b)
	pa, pb := a.Provider(), b.Provider()
	for p, c := range map[cluster.ClusterProvider]*cluster.Cluster{pa: ca, pb: cb} {
		if err := p.StartMember(c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*cluster.Cluster{ca, cb} {
		until(t, "two members", func() bool { return c.MemberList.Members().Len() == 2 })
		if !c.MemberList.ContainsMemberID(a.Self().GetId()) {
			t.Error("a is not known by its id")
		}
	}
	if got := cb.MemberList.Members().GetMemberById(a.Self().GetId()).Address(); got != ca.ActorSystem.Address() {
		t.Errorf("a is at %s, not %s", got, ca.ActorSystem.Address())
	}
	old := a.Self().GetId()
	a.writing.Lock()
	until(t, "a is dead", func() bool { return cb.MemberList.Members().Len() == 1 })
	a.writing.Unlock()
	until(t, "a is back as another member", func() bool {
		return cb.MemberList.Members().Len() == 2 && !cb.MemberList.ContainsMemberID(old)
	})
	if err := pa.Shutdown(true); err != nil {
		t.Fatal(err)
	}
	until(t, "a has left", func() bool { return cb.MemberList.Members().Len() == 1 })
	if err := pb.Shutdown(true); err != nil {
		t.Fatal(err)
	}
}

func TestLookup(t *testing.T) {
	s := startSite(t)
	n := s.joinAll("a", "b")
	c := newCluster(t, n[1])
	lookup := n[1].Lookup()
	lookup.Setup(c, nil, false)
	defer lookup.Shutdown()
	id := cluster.NewClusterIdentity("m", DeploymentKind)
	if got := lookup.Get(id); got != nil {
		t.Errorf("nobody holds it, and it is at %v", got)
	}
	for i, want := range []string{"a:1", "b:1"} {
		term, ok, err := n[i].Acquire(t.Context(), DeploymentRole+"m")
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		until(t, "it is found", func() bool { return lookup.Get(id).GetAddress() == want })
		if pid := lookup.Get(id); pid.GetId() != "node/deployments/m" {
			t.Errorf("it is %v", pid)
		}
		c.PidCache.Set("m", DeploymentKind, lookup.Get(id)) // as protoactor does
		if err := n[i].Release(t.Context(), DeploymentRole+"m", term); err != nil {
			t.Fatal(err)
		}
		until(t, "protoactor asks again", func() bool { _, kept := c.PidCache.Get("m", DeploymentKind); return !kept })
	}
	if got := lookup.Get(cluster.NewClusterIdentity("m", "topic")); got != nil {
		t.Errorf("another kind is at %v", got)
	}
}

func TestTopologyLeavesOutWhatCanNotBeReached(t *testing.T) {
	got := topology([]*messages.Member{{Id: "a.1", Address: "[::1]:80"}, {Id: "b.1", Address: "nowhere"}, {Id: "c.1", Address: "c:port"}}, []string{"k"})
	if len(got) != 1 || got[0].Id != "a.1" || got[0].Host != "::1" || got[0].Port != 80 || !got[0].HasKind("k") {
		t.Errorf("%v", got)
	}
}

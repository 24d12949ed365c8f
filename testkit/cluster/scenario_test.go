package cluster_test

import (
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// victim waits until a replica on another node than the gateway's runs sequences, so that what happens to it can be noticed.
func victim(t *testing.T, c *cluster.Cluster, gateway string) (replica, node string) {
	t.Helper()
	until(t, "a replica that runs on another node", func() bool {
		d, err := c.Model(t.Context(), cluster.ModelName)
		if err != nil {
			return false
		}
		for _, r := range d.GetReplicas() {
			if r.GetNode() != gateway && r.GetRunning() > 0 {
				replica, node = r.GetName(), r.GetNode()
			}
		}
		return node != ""
	})
	return replica, node
}

// scenario is a cluster of two nodes with a replica each, and cluster.Streams through the gateway of the first.
type scenario struct {
	*cluster.Cluster
	t       *testing.T
	before  cluster.Levels
	running *cluster.Running
}

func play(t *testing.T, cfg cluster.Config) *scenario {
	t.Helper()
	cfg.Nodes = max(cfg.Nodes, 2)
	s := &scenario{Cluster: cluster.Up(t, cfg), t: t}
	if err := s.Whole(cluster.Within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	deploy(t, s.Cluster, cfg.Nodes)
	s.before = levels(t, s.Cluster)
	return s
}

// flow starts the load and waits until all streams flow.
func (s *scenario) flow(gateways ...*cluster.Node) {
	s.t.Helper()
	l := load(s.t, gateways...)
	l.Repeat = true
	s.begin(l)
}

func (s *scenario) begin(l cluster.Load) {
	s.t.Helper()
	s.running = l.Start(cluster.Within(s.t, 5*time.Minute))
	if err := s.running.Flowing(cluster.Within(s.t, time.Minute)); err != nil {
		s.t.Fatal(err)
	}
}

// survive lets a fault happen and waits until every stream that was open has ended. Only then it is mended, and all must be as before.
func (s *scenario) survive(f cluster.Fault) {
	s.t.Helper()
	s.running.Mark()
	mend, err := s.Inject(s.t.Context(), f)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.running.Over(cluster.Within(s.t, time.Minute)); err != nil {
		s.t.Fatalf("during %s: %v", f, err)
	}
	if f.Kind != cluster.Stop && f.Kind != cluster.Restart { // a stopped node is to wake under load: what it says then is stale
		s.running.Finish()
	}
	if f.Kind == cluster.Kill || f.Kind == cluster.Stop || f.Kind == cluster.Isolate {
		until(s.t, "a cluster without "+f.On, func() bool { return s.member(f.On) == nil })
	}
	if err := mend(cluster.Within(s.t, time.Minute)); err != nil {
		s.t.Fatalf("mend %s: %v", f, err)
	}
	if err := s.Recovered(cluster.Within(s.t, time.Minute)); err != nil {
		s.t.Fatalf("after %s: %v", f, err)
	}
}

// member is a node as the cluster knows it, or nil.
func (s *scenario) member(name string) *messages.Member {
	members, err := s.Members(s.t.Context())
	if err != nil {
		return &messages.Member{} // who can tell
	}
	return members[name].GetMember()
}

// incarnation is that of a node that is a member. Another one that was just stopped may be asked, and answers late.
func (s *scenario) incarnation(name string) (is uint64) {
	s.t.Helper()
	until(s.t, "the incarnation of "+name, func() bool {
		is = s.member(name).GetIncarnation()
		return is > 0
	})
	return is
}

// end lets the load end: exactly as in an undisturbed run, and without a trace.
func (s *scenario) end() {
	s.t.Helper()
	report := s.running.Finish()
	s.t.Log(report)
	if err := report.Err(); err != nil {
		s.t.Error(err)
	}
	if len(report.Hit) == 0 {
		s.t.Error("no stream was hit: this shows nothing")
	}
	clean(s.t, s.Cluster, s.before)
}

// TestNodeFaults: the node that runs a replica is killed, or stopped, under streams through another node's gateway.
func TestNodeFaults(t *testing.T) {
	for _, kind := range []cluster.Kind{cluster.Kill, cluster.Stop} {
		t.Run(string(kind), func(t *testing.T) {
			s := play(t, cluster.Config{})
			s.flow(s.Nodes[0])
			_, node := victim(t, s.Cluster, "n1")
			was := s.incarnation(node)
			s.survive(cluster.Fault{Kind: kind, On: node})
			if is := s.incarnation(node); is <= was {
				t.Errorf("%s was given up as incarnation %d and is back as %d", node, was, is)
			}
			s.end()
		})
	}
}

// TestAdaptersSurvive: the node that runs a replica is killed under streams with different adapters and none. Each goes on with its own.
func TestAdaptersSurvive(t *testing.T) {
	s := play(t, cluster.Config{})
	if err := s.Adapt(cluster.Within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	l := cluster.Load{Requests: cluster.Mixed(cluster.Requests(16, cluster.StreamTokens)), Streams: 16, Gateways: s.Nodes[:1], Repeat: true}
	var err error
	if l.Answers, err = cluster.Undisturbed(cluster.Within(t, time.Minute), l.Requests); err != nil {
		t.Fatal(err)
	}
	s.begin(l)
	_, node := victim(t, s.Cluster, "n1")
	s.survive(cluster.Fault{Kind: cluster.Kill, On: node})
	s.end()
}

// TestReplicaCrash: the replica alone dies, on another node than the gateway's.
func TestReplicaCrash(t *testing.T) {
	s := play(t, cluster.Config{})
	s.flow(s.Nodes[0])
	replica, _ := victim(t, s.Cluster, "n1")
	s.survive(cluster.Fault{Kind: cluster.CrashReplica, On: replica})
	s.end()
}

// TestPartitions: the two nodes can not reach each other, while both reach NATS; then one reaches nobody. One-way cuts are left to make chaos.
func TestPartitions(t *testing.T) {
	for _, f := range []cluster.Fault{{Kind: cluster.Cut, On: "n1", Other: "n2"}, {Kind: cluster.Isolate, On: "n2"}} {
		t.Run(f.String(), func(t *testing.T) {
			s := play(t, cluster.Config{Isolated: true, NATS: cluster.External})
			s.flow(s.Nodes[0])
			victim(t, s.Cluster, "n1")
			s.survive(f)
			s.end()
		})
	}
}

// TestNATSRestart: streams end while there is no NATS, and go on when there is one again.
func TestNATSRestart(t *testing.T) {
	s := play(t, cluster.Config{NATS: cluster.External})
	s.flow(s.Nodes[0])
	victim(t, s.Cluster, "n1")
	s.survive(cluster.Fault{Kind: cluster.KillNATS})
	s.end()
}

// TestRollingRestart: every node in turn ends in order and starts again, under streams through all gateways.
func TestRollingRestart(t *testing.T) {
	s := play(t, cluster.Config{Nodes: 3, NATS: cluster.Routed})
	s.flow(s.Nodes...)
	for _, n := range s.Nodes {
		s.survive(cluster.Fault{Kind: cluster.Restart, On: n.Name})
		if err := s.running.Flowing(cluster.Within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	s.end()
}

// TestMeasure: the figures of docs/benchmarks.md come from here.
func TestMeasure(t *testing.T) {
	s := play(t, cluster.Config{})
	outages, err := s.Measure(cluster.Within(t, 3*time.Minute), load(t, s.Nodes[0]), cluster.Fault{Kind: cluster.Kill, On: "n2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("noticed after %s; longest pause: %s", cluster.Spread(outages.Detection), cluster.Spread(outages.Pauses))
	if len(outages.Detection) != 1 || len(outages.Pauses) == 0 || outages.Detection[0] <= 0 {
		t.Errorf("%v", outages)
	}
	clean(t, s.Cluster, s.before)
}

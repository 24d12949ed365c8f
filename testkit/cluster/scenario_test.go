package cluster_test

import (
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// victim waits until a replica on another node than the gateway's runs sequences, so that what happens to it can be noticed.
func remoteReplica(t *testing.T, c *cluster.Cluster, gateway string) (replica, node string) {
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
	t        *testing.T
	baseline cluster.Baseline
	load     *cluster.LoadRun
}

func newScenario(t *testing.T, cfg cluster.Config) *scenario {
	t.Helper()
	cfg.Nodes = max(cfg.Nodes, 2)
	s := &scenario{Cluster: cluster.Up(t, cfg), t: t}
	if err := s.WaitMembers(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	deploy(t, s.Cluster, cfg.Nodes)
	s.baseline = measureBaseline(t, s.Cluster)
	return s
}

// flow starts the load and waits until all streams flow.
func (s *scenario) startStreams(gateways ...*cluster.Node) {
	s.t.Helper()
	l := load(s.t, gateways...)
	l.Repeat = true
	s.start(l)
}

func (s *scenario) start(l cluster.Load) {
	s.t.Helper()
	s.load = l.Start(cluster.TestContext(s.t, 5*time.Minute))
	if err := s.load.WaitStreaming(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatal(err)
	}
}

// inject lets a fault happen and waits until every stream that was open has ended. Only then it is mended, and all must be as before.
func (s *scenario) inject(f cluster.Fault) {
	s.t.Helper()
	s.load.MarkOpen()
	mend, err := s.Inject(s.t.Context(), f)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.load.WaitMarked(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatalf("during %s: %v", f, err)
	}
	if f.Kind != cluster.Stop && f.Kind != cluster.Restart { // a stopped node is to wake under load: what it says then is stale
		s.load.Finish()
	}
	if f.Kind == cluster.Kill || f.Kind == cluster.Stop || f.Kind == cluster.Isolate {
		until(s.t, "a cluster without "+f.On, func() bool { return s.member(f.On) == nil })
	}
	if err := mend(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatalf("mend %s: %v", f, err)
	}
	if err := s.WaitRecovered(cluster.TestContext(s.t, time.Minute)); err != nil {
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
func (s *scenario) finish() {
	s.t.Helper()
	report := s.load.Finish()
	s.t.Log(report)
	if err := report.Err(); err != nil {
		s.t.Error(err)
	}
	if len(report.Affected) == 0 {
		s.t.Error("no stream was hit: this shows nothing")
	}
	checkClean(s.t, s.Cluster, s.baseline)
}

// TestStreamsSurviveNodeFaults: the node that runs a replica is killed, or stopped, under streams through another node's gateway.
func TestStreamsSurviveNodeFaults(t *testing.T) {
	for _, kind := range []cluster.Kind{cluster.Kill, cluster.Stop} {
		t.Run(string(kind), func(t *testing.T) {
			s := newScenario(t, cluster.Config{})
			s.startStreams(s.Nodes[0])
			_, node := remoteReplica(t, s.Cluster, "n1")
			was := s.incarnation(node)
			s.inject(cluster.Fault{Kind: kind, On: node})
			if is := s.incarnation(node); is <= was {
				t.Errorf("%s was given up as incarnation %d and is back as %d", node, was, is)
			}
			s.finish()
		})
	}
}

// TestAdapterStreamsSurviveNodeKill: the node that runs a replica is killed under streams with different adapters and none. Each goes on with its own.
func TestAdapterStreamsSurviveNodeKill(t *testing.T) {
	s := newScenario(t, cluster.Config{})
	if err := s.RegisterAdapters(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	l := cluster.Load{Requests: cluster.WithAdapters(cluster.Requests(16, cluster.StreamTokens)), Streams: 16, Gateways: s.Nodes[:1], Repeat: true}
	var err error
	if l.Answers, err = cluster.ReferenceAnswers(cluster.TestContext(t, time.Minute), l.Requests); err != nil {
		t.Fatal(err)
	}
	s.start(l)
	_, node := remoteReplica(t, s.Cluster, "n1")
	s.inject(cluster.Fault{Kind: cluster.Kill, On: node})
	s.finish()
}

// TestStreamsSurviveReplicaCrash: the replica alone dies, on another node than the gateway's.
func TestStreamsSurviveReplicaCrash(t *testing.T) {
	s := newScenario(t, cluster.Config{})
	s.startStreams(s.Nodes[0])
	replica, _ := remoteReplica(t, s.Cluster, "n1")
	s.inject(cluster.Fault{Kind: cluster.CrashReplica, On: replica})
	s.finish()
}

// TestStreamsSurvivePartitions: the two nodes can not reach each other, while both reach NATS; then one reaches nobody. One-way cuts are left to make chaos.
func TestStreamsSurvivePartitions(t *testing.T) {
	for _, f := range []cluster.Fault{{Kind: cluster.Cut, On: "n1", Other: "n2"}, {Kind: cluster.Isolate, On: "n2"}} {
		t.Run(f.String(), func(t *testing.T) {
			s := newScenario(t, cluster.Config{Isolated: true, NATS: cluster.External})
			s.startStreams(s.Nodes[0])
			remoteReplica(t, s.Cluster, "n1")
			s.inject(f)
			s.finish()
		})
	}
}

// TestStreamsSurviveNATSRestart: streams end while there is no NATS, and go on when there is one again.
func TestStreamsSurviveNATSRestart(t *testing.T) {
	s := newScenario(t, cluster.Config{NATS: cluster.External})
	s.startStreams(s.Nodes[0])
	remoteReplica(t, s.Cluster, "n1")
	s.inject(cluster.Fault{Kind: cluster.KillNATS})
	s.finish()
}

// TestStreamsSurviveRollingRestart: every node in turn ends in order and starts again, under streams through all gateways.
func TestStreamsSurviveRollingRestart(t *testing.T) {
	s := newScenario(t, cluster.Config{Nodes: 3, NATS: cluster.Routed})
	s.startStreams(s.Nodes...)
	for _, n := range s.Nodes {
		s.inject(cluster.Fault{Kind: cluster.Restart, On: n.Name})
		if err := s.load.WaitStreaming(cluster.TestContext(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	s.finish()
}

// TestMeasure: the figures of docs/benchmarks.md come from here.
func TestMeasure(t *testing.T) {
	s := newScenario(t, cluster.Config{})
	outages, err := s.Measure(cluster.TestContext(t, 3*time.Minute), load(t, s.Nodes[0]), cluster.Fault{Kind: cluster.Kill, On: "n2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("noticed after %s; longest pause: %s", cluster.Summarize(outages.Detection), cluster.Summarize(outages.Pauses))
	if len(outages.Detection) != 1 || len(outages.Pauses) == 0 || outages.Detection[0] <= 0 {
		t.Errorf("%v", outages)
	}
	checkClean(t, s.Cluster, s.baseline)
}

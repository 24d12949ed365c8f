package cluster_test

import (
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// rest is how long clients rest between streams during a fault.
const rest = time.Second

// remoteReplica waits until a replica on a node other than the gateway's runs sequences, and
// returns both.
func remoteReplica(t *testing.T, c *cluster.Cluster, gateway string) (replica, node string) {
	t.Helper()
	until(t, "a busy replica on another node", func() bool {
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

// scenario is a cluster of at least two nodes with a replica each, and a load.
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

// startStreams starts a load that repeats and waits until its streams have begun.
func (s *scenario) startStreams(gateways ...*cluster.Node) {
	s.t.Helper()
	l := load(s.t, gateways...)
	l.Repeat, l.Rest = true, rest
	s.start(l)
}

func (s *scenario) start(l cluster.Load) {
	s.t.Helper()
	s.load = l.Start(cluster.TestContext(s.t, 5*time.Minute))
	if err := s.load.WaitStreaming(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatal(err)
	}
}

// inject injects a fault, waits until every stream that was open has ended, undoes the fault and
// waits for the recovery.
func (s *scenario) inject(f cluster.Fault) {
	s.t.Helper()
	if err := s.load.WaitStreaming(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	s.load.MarkOpen()
	undo, err := s.Inject(s.t.Context(), f)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.load.WaitMarked(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatalf("during %s: %v", f, err)
	}
	// A stopped node must resume under load, since the messages that it then sends are stale.
	if f.Kind != cluster.Stop && f.Kind != cluster.Restart {
		s.load.Finish()
	}
	if f.Kind == cluster.Stop || f.Kind == cluster.Isolate {
		until(s.t, "a cluster without "+f.On, func() bool { return s.member(f.On) == nil })
	}
	if f.Kind == cluster.Stop {
		if err := s.load.WaitStreaming(cluster.TestContext(s.t, time.Minute)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := undo(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatalf("undo %s: %v", f, err)
	}
	if err := s.WaitRecovered(cluster.TestContext(s.t, time.Minute)); err != nil {
		s.t.Fatalf("after %s: %v", f, err)
	}
}

// member returns a node as the cluster knows it, or nil.
func (s *scenario) member(name string) *messages.Member {
	members, err := s.Members(s.t.Context())
	if err != nil {
		return &messages.Member{} // unknown
	}
	return members[name].GetMember()
}

// incarnation returns the incarnation of a member. A node that was just stopped may receive the
// call, so it may take a while.
func (s *scenario) incarnation(name string) (number uint64) {
	s.t.Helper()
	until(s.t, "the incarnation of "+name, func() bool {
		number = s.member(name).GetIncarnation()
		return number > 0
	})
	return number
}

// finish ends the load and checks that every stream was exact and that no resources are left.
func (s *scenario) finish() {
	s.t.Helper()
	report := s.load.Finish()
	s.t.Log(report)
	if err := report.Err(); err != nil {
		s.t.Error(err)
	}
	if len(report.Affected) == 0 {
		s.t.Error("no stream was affected, so the test shows nothing")
	}
	checkClean(s.t, s.Cluster, s.baseline)
}

// TestStreamsSurviveNodeKill kills a node that runs a replica while streams run through the gateway of
// another node, with different adapters and without one. Each stream must continue with its adapter. The
// outage is measured as for docs/benchmarks.md.
func TestStreamsSurviveNodeKill(t *testing.T) {
	s := newScenario(t, cluster.Config{})
	if err := s.RegisterAdapters(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	l := cluster.Load{
		Requests: cluster.WithAdapters(cluster.Requests(clients, tokens)),
		Streams:  clients,
		Gateways: s.Nodes[:1],
		Rest:     rest,
	}
	var err error
	if l.Answers, err = cluster.ReferenceAnswers(cluster.TestContext(t, time.Minute), l.Requests); err != nil {
		t.Fatal(err)
	}
	was := s.incarnation("n2")
	outages, err := s.Measure(cluster.TestContext(t, 5*time.Minute), l, cluster.Fault{Kind: cluster.Kill, On: "n2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("detected after %s; longest pause: %s", cluster.Summarize(outages.Detection),
		cluster.Summarize(outages.Pauses))
	if len(outages.Detection) != 1 || len(outages.Pauses) == 0 || outages.Detection[0] <= 0 {
		t.Errorf("%v", outages)
	}
	if is := s.incarnation("n2"); is <= was {
		t.Errorf("n2 was lost as incarnation %d and is back as %d", was, is)
	}
	checkClean(t, s.Cluster, s.baseline)
}

// TestStreamsSurviveNodeStop stops the node that runs a replica while streams run through the gateway of
// another node, and continues it.
func TestStreamsSurviveNodeStop(t *testing.T) {
	s := newScenario(t, cluster.Config{})
	s.startStreams(s.Nodes[0])
	_, node := remoteReplica(t, s.Cluster, "n1")
	was := s.incarnation(node)
	s.inject(cluster.Fault{Kind: cluster.Stop, On: node})
	if is := s.incarnation(node); is <= was {
		t.Errorf("%s was lost as incarnation %d and is back as %d", node, was, is)
	}
	s.finish()
}

// TestStreamsSurvivePartitions cuts the link between two nodes that both reach NATS, and then
// isolates one node. make chaos covers cuts in one direction.
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

// TestStreamsSurviveNATSRestart checks that open streams end during a NATS outage, and that new
// ones begin after it.
func TestStreamsSurviveNATSRestart(t *testing.T) {
	s := newScenario(t, cluster.Config{NATS: cluster.External})
	s.startStreams(s.Nodes[0])
	remoteReplica(t, s.Cluster, "n1")
	s.inject(cluster.Fault{Kind: cluster.KillNATS})
	s.finish()
}

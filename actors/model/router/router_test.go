package router_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/router"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit"
)

// node is the router of one node. The test acts as the actors that the router communicates with.
type node struct {
	*actor.PID
	name  string
	cache *router.DeploymentCache
}

// testCluster is a cluster of routers in one actor system.
type testCluster struct {
	t        *testing.T
	sys      *actor.ActorSystem
	client   *testkit.Peer // sessions, replicas, deployments
	group    *testkit.Peer // the replicas group of every node
	store    *testkit.Peer // the deployments group of every node
	planner  *testkit.Peer // the planner of every node; nil: none
	replicas map[string]*testkit.Peer
	mu       sync.Mutex
	members  []*messages.Member
	drop     func(to string, m proto.Message) bool // reports whether to drop a message; nil: none is
	adapters func(model string, held []*messages.AdapterHeld) []proto.Message
	listed   []*messages.ReplicaStarted // replicas that the group of every node lists
}

func play(t *testing.T) *testCluster { return playOn(t, testkit.System(t)) }

func playOn(t *testing.T, sys *actor.ActorSystem) *testCluster {
	w := &testCluster{t: t, sys: sys, replicas: make(map[string]*testkit.Peer)}
	w.client = testkit.NewPeer(t, w.sys, "client", nil)
	w.group = testkit.NewPeer(t, w.sys, "replicas", func(m proto.Message) proto.Message {
		w.mu.Lock()
		defer w.mu.Unlock()
		return &messages.ListReplicasResult{Replicas: slices.Clone(w.listed)}
	})
	w.store = testkit.NewPeer(t, w.sys, "store", nil)
	return w
}

func (w *testCluster) now() *messages.MembersChanged {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &messages.MembersChanged{Members: slices.Clone(w.members)}
}

func (w *testCluster) start(name string, mw ...actor.ReceiverMiddleware) *node {
	w.t.Helper()
	n := &node{name: name, cache: &router.DeploymentCache{}}
	var planner *actor.PID
	if w.planner != nil {
		planner = w.planner.PID
	}
	n.PID = testkit.Spawn(w.t, w.sys, name, supervise.Strategy(nil), router.Props(router.Config{
		Node: name, Members: w.now, Planner: planner, Replicas: w.group.PID, Deployments: w.store.PID,
		Sessions: func() int { return 3 },
		Adapters: w.adapters, Cache: n.cache,
		Peer:   func(m *messages.Member) *actor.PID { return actor.NewPID(w.sys.Address(), m.GetAddress()) },
		Leader: func(*messages.Member) *actor.PID { return w.store.PID },
	}), append(mw, w.dropMiddleware(name))...)
	w.store.Send(n.PID, &messages.ApplyDeployment{Spec: specOf("m"), Revision: 7})
	w.store.Send(n.PID, &messages.ListDeploymentsResult{Names: []string{"m"}})
	synctest.Wait()
	return n
}

// dropMiddleware drops the messages to a router that w.drop selects.
func (w *testCluster) dropMiddleware(name string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			w.mu.Lock()
			lose := w.drop
			w.mu.Unlock()
			if m, ok := env.Message.(proto.Message); ok && lose != nil && lose(name, m) {
				return
			}
			next(ctx, env)
		}
	}
}

func (w *testCluster) setDrop(f func(to string, m proto.Message) bool) {
	w.mu.Lock()
	w.drop = f
	w.mu.Unlock()
}

// setMembers sets the members of the cluster. A member's address is the id of its router.
func (w *testCluster) setMembers(nodes ...*node) {
	w.mu.Lock()
	w.members = nil
	for _, n := range nodes {
		w.members = append(w.members, &messages.Member{Id: n.name + ".1", Name: n.name, Address: n.GetId()})
	}
	w.mu.Unlock()
	for _, n := range nodes {
		w.sys.Root.Send(n.PID, w.now())
	}
	w.pass(time.Second)
}

func (w *testCluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// announce sends a replica's announcement to the router of its node.
func (w *testCluster) announce(n *node, name string, change func(*messages.ReplicaAnnounced)) {
	if w.replicas[name] == nil {
		w.replicas[name] = testkit.NewPeer(w.t, w.sys, name, nil)
	}
	a := &messages.ReplicaAnnounced{Status: &messages.ReplicaStatus{
		Name: name, Model: "m", Node: n.name, State: messages.ReplicaState_REPLICA_STATE_SERVING, BlockTokens: 4,
		MaxSequences: 8, StepTokens: 64,
		Actor: &messages.ActorRef{Address: w.sys.Address(), Id: name}, Incarnation: 2,
	}}
	if change != nil {
		change(a)
	}
	w.client.Send(n.PID, a)
	w.pass(time.Second)
}

func (w *testCluster) route(n *node, id string, change func(*messages.RouteSequence)) *messages.RouteSequenceResult {
	q := &messages.RouteSequence{RequestId: id, Model: "m", Prompt: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	if change != nil {
		change(q)
	}
	w.client.Send(n.PID, q)
	synctest.Wait()
	all := testkit.Got[*messages.RouteSequenceResult](w.client)
	return all[len(all)-1]
}

// specOf returns a deployment for which requests may wait.
func specOf(name string) *messages.DeploymentSpec {
	return &messages.DeploymentSpec{Name: name, MaxWaiting: new(uint32(8))}
}

func (w *testCluster) expectRoute(n *node, want string) {
	w.t.Helper()
	if r := w.route(n, "r", nil); r.GetRouted().GetReplica() != want {
		w.t.Errorf("%s routes to %v, want %q", n.name, r, want)
	}
}

func state(s messages.ReplicaState) func(*messages.ReplicaAnnounced) {
	return func(a *messages.ReplicaAnnounced) { a.Status.State = s }
}

// TestAnnouncementsReachAllRouters checks that all routers soon know each replica, including a
// router that starts later, and that the replicas of a node that leaves are dropped at once.
func TestAnnouncementsReachAllRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(b, "m-0", nil)
		w.expectRoute(a, "m-0")
		r := w.route(a, "r2", nil).GetRouted()
		if r.GetNode() != "b" || r.GetActor().GetId() != "m-0" || r.GetIncarnation() != 2 {
			t.Errorf("%v", r)
		}
		c := w.start("c")
		w.setMembers(a, b, c)
		w.expectRoute(c, "m-0")
		w.announce(b, "m-0", state(messages.ReplicaState_REPLICA_STATE_DRAINING))
		w.expectRoute(c, "")
		w.announce(b, "m-0", nil)
		w.expectRoute(c, "m-0")
		w.announce(c, "m-1", nil)
		w.setMembers(a, c)
		w.expectRoute(a, "m-1")
		w.replicas["m-1"].Stop()
		w.pass(time.Second)
		w.expectRoute(a, "")
		w.expectRoute(c, "")
	})
}

// TestPrefixAffinity checks that every router sends a request to the replica that announced its
// blocks, until they are evicted.
func TestPrefixAffinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", nil)
		w.announce(b, "m-1", nil)
		short := kv.Fingerprints(kv.Hashes(kv.Root("m", "", nil), []uint32{1, 2, 3, 4, 5, 6, 7, 8}, 4))
		for _, to := range []struct {
			node *node
			name string
		}{{b, "m-1"}, {a, "m-0"}} {
			w.announce(to.node, to.name, func(m *messages.ReplicaAnnounced) { m.Committed = short })
			for _, n := range []*node{a, b} {
				w.expectRoute(n, to.name)
				w.announce(a, "m-0", nil) // reports reset the routed load
				w.announce(b, "m-1", nil)
			}
			w.announce(to.node, to.name, func(m *messages.ReplicaAnnounced) { m.Evicted = short })
		}
	})
}

// TestPrefixAffinityRespectsSalt checks that a request is routed by the cached blocks of its own
// salt only.
func TestPrefixAffinityRespectsSalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		prompt := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
		holders := map[string]string{"": "m-0", "alice": "m-1", "bob": "m-2"}
		for salt, name := range holders {
			w.announce(a, name, func(m *messages.ReplicaAnnounced) {
				m.Committed = kv.Fingerprints(kv.Hashes(kv.Root("m", "", []byte(salt)), prompt, 4))
			})
		}
		for _, n := range []*node{a, b} {
			for salt, want := range holders {
				r := w.route(n, "r"+n.name+salt, func(q *messages.RouteSequence) {
					q.Prompt, q.CacheSalt = prompt, []byte(salt)
				})
				if got := r.GetRouted().GetReplica(); got != want {
					t.Errorf("%s routes a request with salt %q to %s, want %s", n.name, salt, got, want)
				}
				for _, name := range holders {
					w.announce(a, name, nil) // a report resets the routed load
				}
			}
		}
	})
}

// TestLostAnnouncementTriggersSnapshot checks that a lost delta is detected when the next one
// arrives, and that a snapshot replaces it.
func TestLostAnnouncementTriggersSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(b, "m-0", nil)
		lost := false
		w.setDrop(func(to string, m proto.Message) bool {
			n, ok := m.(*messages.RoutesAnnounced)
			if !ok || to != "a" || len(n.GetReplicas()) == 0 || n.GetSnapshot() || lost {
				return false
			}
			lost = true
			return true
		})
		w.announce(b, "m-1", nil)
		w.announce(b, "m-0", state(messages.ReplicaState_REPLICA_STATE_DRAINING))
		if !lost {
			t.Fatal("no delta was dropped")
		}
		w.expectRoute(a, "m-1")
	})
}

// TestRestartRecoversRoutes checks that a restarted router learns the routes of the other routers,
// and they learn its own.
func TestRestartRecoversRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		crash := &testkit.Crash{On: "*messages.GetClusterView", Times: 1}
		a, b := w.start("a", crash.Middleware), w.start("b")
		w.setMembers(a, b)
		w.announce(b, "m-0", nil)
		w.announce(a, "m-1", nil)
		w.client.Send(a.PID, &messages.GetClusterView{})
		w.pass(time.Second)
		// the replies to GetDeploymentSpec
		w.store.Send(a.PID, &messages.ApplyDeployment{Spec: specOf("m")})
		w.store.Send(a.PID, &messages.ListDeploymentsResult{Names: []string{"m"}})
		w.pass(time.Second)
		if crash.Crashed() == 0 || len(testkit.Got[*messages.GetDeploymentSpec](w.store)) < 3 ||
			len(testkit.Got[*messages.ListReplicas](w.group)) < 3 {
			t.Error("no crash, or no query after it")
		}
		w.expectRoute(a, "m-0")
		w.announce(a, "m-1", nil)
		w.announce(b, "m-0", state(messages.ReplicaState_REPLICA_STATE_FAILED))
		w.expectRoute(b, "m-1")
	})
}

// TestRefusalReasons checks the reasons for refusals, on which a session bases its next action.
func TestRefusalReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a := w.start("a")
		w.setMembers(a)
		model := func(name string) func(*messages.RouteSequence) {
			return func(q *messages.RouteSequence) { q.Model = name }
		}
		refused := func(name string, want messages.Reason) {
			t.Helper()
			if r := w.route(a, "r", model(name)).GetRefused(); r.GetReason() != want || r.GetDetail() == "" {
				t.Errorf("%s: %v", name, r)
			}
		}
		waits := func() {
			t.Helper()
			if r := w.route(a, "r", model("m")); r.GetWaiting() == nil {
				t.Errorf("%v", r)
			}
		}
		refused("none", messages.Reason_REASON_NOT_FOUND)
		waits()
		w.client.Send(a.PID, &messages.RouteDeployment{Status: &messages.DeploymentStatus{
			Spec: &messages.DeploymentSpec{Name: "m"}, Node: "a",
			State:   messages.DeploymentState_DEPLOYMENT_STATE_FAILED,
			Failure: &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: "no GPU"},
		}})
		refused("m", messages.Reason_REASON_NO_MEMORY)
		status := &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: "m"}}
		w.client.Send(a.PID, &messages.RouteDeployment{Status: status, Withdrawn: true})
		waits()
		w.store.Send(a.PID, &messages.RemoveDeployment{Name: "m"})
		refused("m", messages.Reason_REASON_NOT_FOUND)
	})
}

// TestExplanationListsDecisions checks that the decisions on a request are kept and explained.
func TestExplanationListsDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a := w.start("a")
		w.setMembers(a)
		w.route(a, "first", nil)
		w.announce(a, "m-0", nil) // and routes the request, which waits
		w.route(a, "first", func(q *messages.RouteSequence) { q.Cause = "m-0 is gone" })
		w.client.Send(a.PID, &messages.SequenceMoved{RequestId: "first", Replica: "m-1", Node: "b", From: "m-0",
			Cause:  "m-0 leaves",
			Report: &messages.SequenceMigration{Blocks: 5, ReusedBlocks: 2, Bytes: 300, PauseSeconds: 0.006}})
		w.client.Send(a.PID, &messages.GetExplanation{RequestId: "first"})
		w.client.Send(a.PID, &messages.GetExplanation{RequestId: "never"})
		synctest.Wait()
		all := testkit.Got[*messages.Explanation](w.client)
		if len(all) != 2 || len(all[1].GetDecisions()) != 0 {
			t.Fatalf("%v", all)
		}
		d := all[0].GetDecisions()
		if len(d) != 4 || d[2].GetCause() != "m-0 is gone" || d[0].GetRefused() == nil ||
			d[1].GetReplica() != "m-0" || d[1].GetWhy() == "" || d[1].GetRouter() != "a" ||
			len(d[1].GetCandidates()) != 1 {
			t.Errorf("%v", d)
		}
		const why = "m-1 on b: migrated from m-0 with 5 KV blocks, 2 of them already there; " +
			"300 bytes sent, paused for 6ms"
		if last := d[len(d)-1]; last.GetWhy() != why || last.GetReplica() != "m-1" ||
			last.GetCause() != "m-0 leaves" || last.GetRouter() != "a" {
			t.Errorf("%v", last)
		}
	})
}

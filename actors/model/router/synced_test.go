package router_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/router"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// TestOnSyncedCalledOnce checks that a router calls OnSynced once, after it has heard from every
// other router and the store.
func TestOnSyncedCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		silent := "b"
		w.setDrop(func(to string, m proto.Message) bool {
			announced, ok := m.(*messages.RoutesAnnounced)
			return ok && to != "a" && announced.GetNode() == silent
		})
		var informed atomic.Int32
		c := w.startEmpty("c", func() { informed.Add(1) })
		w.store.Send(c.PID, &messages.ListDeploymentsResult{})
		w.setMembers(a, b, c)
		if informed.Load() != 0 {
			t.Error("OnSynced called before b was heard")
		}
		w.setDrop(nil)
		w.pass(time.Second)
		w.setMembers(a, c)
		w.setMembers(a, b, c)
		if n := informed.Load(); n != 1 {
			t.Errorf("OnSynced called %d times", n)
		}
		d := w.startEmpty("d", func() { informed.Add(1) })
		w.setMembers(a, b, d)
		if informed.Load() != 1 {
			t.Error("OnSynced called before the store was read")
		}
		w.store.Send(d.PID, &messages.ListDeploymentsResult{})
		synctest.Wait()
		if informed.Load() != 2 {
			t.Error("OnSynced was not called")
		}
	})
}

// TestReplicasReportToRestartedRouter checks that a router that restarts asks the replicas that the group of
// its node lists for their status. They announce themselves in answer.
func TestReplicasReportToRestartedRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		w.replicas["m-0"] = testkit.NewPeer(t, w.sys, "m-0", nil)
		w.listed = []*messages.ReplicaStarted{{
			Replica: "m-0", Actor: &messages.ActorRef{Address: w.sys.Address(), Id: "m-0"},
		}}
		crash := &testkit.Crash{On: "*messages.GetClusterView", Times: 1}
		a := w.start("a", crash.Middleware)
		asked := func(times int) {
			t.Helper()
			w.pass(time.Second)
			if n := len(testkit.Got[*messages.GetReplica](w.replicas["m-0"])); n != times {
				t.Errorf("the replica was asked %d times, want %d", n, times)
			}
		}
		asked(1)
		w.client.Send(a.PID, &messages.GetClusterView{})
		asked(2)
		if crash.Crashed() != 1 {
			t.Error("the router did not crash")
		}
	})
}

// TestReplicaIsAskedForBlocks checks that a router asks a replica of which it has missed reports for a report
// with all blocks, until it gets one.
func TestReplicaIsAskedForBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a := w.start("a")
		for i, snapshot := range []bool{false, false, true, false} {
			w.announce(a, "m-0", func(a *messages.ReplicaAnnounced) { a.Snapshot = snapshot })
			want := min(i+1, 2)
			if n := len(testkit.Got[*messages.GetReplica](w.replicas["m-0"])); n != want {
				t.Errorf("after report %d: asked %d times, want %d", i+1, n, want)
			}
		}
	})
}

// startEmpty starts a router that has received no stored deployments.
func (w *testCluster) startEmpty(name string, informed func()) *node {
	n := &node{name: name, cache: &router.DeploymentCache{}}
	n.PID = testkit.Spawn(w.t, w.sys, name, supervise.Strategy(nil), router.Props(router.Config{
		Node: name, Members: w.now, Replicas: w.group.PID, Deployments: w.store.PID,
		Sessions: func() int { return 0 },
		Cache:    n.cache, OnSynced: informed,
		Peer:   func(m *messages.Member) *actor.PID { return actor.NewPID(w.sys.Address(), m.GetAddress()) },
		Leader: func(*messages.Member) *actor.PID { return w.store.PID },
	}), w.dropMiddleware(name))
	return n
}

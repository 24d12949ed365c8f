package router_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/router"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// TestOnSyncedCalledOnce: a router that has started says once that it knows what the others do, and not before it has the word of each, and of the store.
func TestOnSyncedCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		silent := "b"
		w.setDrop(func(to string, m proto.Message) bool {
			said, ok := m.(*messages.RoutesAnnounced)
			return ok && to != "a" && said.GetNode() == silent
		})
		var informed atomic.Int32
		c := w.startEmpty("c", func() { informed.Add(1) })
		w.store.Send(c.PID, &messages.ListDeploymentsResult{})
		w.setMembers(a, b, c)
		if informed.Load() != 0 {
			t.Error("it does not know what b says")
		}
		w.setDrop(nil)
		w.pass(time.Second)
		w.setMembers(a, c)
		w.setMembers(a, b, c)
		if n := informed.Load(); n != 1 {
			t.Errorf("it said %d times that it knows all", n)
		}
		d := w.startEmpty("d", func() { informed.Add(1) })
		w.setMembers(a, b, d)
		if informed.Load() != 1 {
			t.Error("it does not know what is stored")
		}
		w.store.Send(d.PID, &messages.ListDeploymentsResult{})
		synctest.Wait()
		if informed.Load() != 2 {
			t.Error("it did not say that it knows all")
		}
	})
}

// blank is a node's router that was told nothing.
func (w *testCluster) startEmpty(name string, informed func()) *node {
	n := &node{name: name, cache: &router.DeploymentCache{}}
	n.PID = testkit.Spawn(w.t, w.sys, name, supervise.Strategy(nil), router.Props(router.Config{
		Node: name, Members: w.now, Replicas: w.group.PID, Deployments: w.store.PID,
		Sessions: func() int { return 0 }, Log: zerolog.Nop(),
		Cache: n.cache, OnSynced: informed,
		Peer: func(m *messages.Member) *actor.PID { return actor.NewPID(w.sys.Address(), m.GetAddress()) },
	}), w.dropMiddleware(name))
	return n
}

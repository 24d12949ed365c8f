package router_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

// TestAvoidsLostReplicasAndSilentNodes checks that a request avoids the replicas that its session
// lost and those on silent nodes if another one serves.
func TestAvoidsLostReplicasAndSilentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", func(m *messages.ReplicaAnnounced) { m.Status.Running, m.Status.MaxSequences = 50, 64 })
		w.announce(b, "m-1", func(m *messages.ReplicaAnnounced) { m.Status.MaxSequences = 64 })
		w.expectRoute(a, "m-1")
		for lost, want := range map[string]string{"m-0": "m-1", "m-1": "m-0"} {
			r := w.route(a, "r", func(q *messages.RouteSequence) { q.Avoid = []string{lost} })
			if r.GetRouted().GetReplica() != want {
				t.Errorf("with %s lost, routed to %v", lost, r)
			}
		}
		w.setDrop(func(to string, m proto.Message) bool {
			_, ok := m.(*messages.RoutesAnnounced)
			return ok && to == "a"
		})
		w.pass(2 * time.Second)
		w.expectRoute(a, "m-0")
		w.setDrop(nil)
		w.pass(time.Second)
		w.expectRoute(a, "m-1")
	})
}

// TestAvoidsDisconnectedNodes checks that a node is avoided as soon as the connection breaks, each
// time, until its next message.
func TestAvoidsDisconnectedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a := w.start("a")
		w.setMembers(a, &node{name: "b", PID: actor.NewPID(w.sys.Address(), "router-b")})
		w.announce(a, "m-0", func(m *messages.ReplicaAnnounced) { m.Status.Running, m.Status.MaxSequences = 50, 64 })
		for sequence := range uint64(3) {
			b := testkit.NewPeer(t, w.sys, "router-b", nil)
			b.Send(a.PID, &messages.RoutesAnnounced{Node: "b", Incarnation: 1, Sequence: sequence, Snapshot: true,
				Replicas: []*messages.ReplicaAnnounced{
					{Status: &messages.ReplicaStatus{
						Name: "m-1", Model: "m", State: messages.ReplicaState_REPLICA_STATE_SERVING, BlockTokens: 4,
						MaxSequences: 64, StepTokens: 64,
					}},
				}})
			synctest.Wait()
			w.expectRoute(a, "m-1")
			_ = w.sys.Root.StopFuture(b.PID).Wait()
			w.expectRoute(a, "m-0")
		}
	})
}

// TestStalledRouterAvoidsNoNode checks that a router that stalled does not count the stall as
// silence of its peers.
func TestStalledRouterAvoidsNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		turn := make(chan struct{}, 1)
		turn <- struct{}{}
		a, b := w.start("a", func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				turn <- <-turn
				next(ctx, env)
			}
		}), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", func(m *messages.ReplicaAnnounced) { m.Status.Running, m.Status.MaxSequences = 50, 64 })
		w.announce(b, "m-1", func(m *messages.ReplicaAnnounced) { m.Status.MaxSequences = 64 })
		w.setDrop(func(to string, m proto.Message) bool {
			_, ok := m.(*messages.RoutesAnnounced)
			return ok && to == "a"
		})
		<-turn
		w.pass(5 * time.Second)
		turn <- struct{}{}
		w.pass(200 * time.Millisecond)
		w.expectRoute(a, "m-1")
		w.pass(2 * time.Second)
		w.expectRoute(a, "m-0")
	})
}

// TestAvoidsLeavingNodes checks that a request avoids a node that is shutting down if another one
// serves.
func TestAvoidsLeavingNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", func(m *messages.ReplicaAnnounced) { m.Status.Running, m.Status.MaxSequences = 50, 64 })
		w.announce(b, "m-1", func(m *messages.ReplicaAnnounced) { m.Status.MaxSequences = 64 })
		w.expectRoute(a, "m-1")
		w.setLeaving("b")
		for _, n := range []*node{a, b} {
			w.expectRoute(n, "m-0")
		}
		w.setLeaving("a", "b")
		w.expectRoute(a, "m-1") // leaving nodes get requests if no other node can serve them
		w.setLeaving()
		w.expectRoute(b, "m-1")
	})
}

// setLeaving makes exactly these members leave.
func (w *testCluster) setLeaving(names ...string) {
	w.mu.Lock()
	for i, m := range w.members {
		m = proto.CloneOf(m)
		if m.State = messages.MemberState_MEMBER_STATE_UP; slices.Contains(names, m.GetName()) {
			m.State = messages.MemberState_MEMBER_STATE_LEAVING
		}
		w.members[i] = m
	}
	w.mu.Unlock()
	for _, m := range w.now().GetMembers() {
		w.sys.Root.Send(actor.NewPID(w.sys.Address(), m.GetAddress()), w.now())
	}
	w.pass(time.Second)
}

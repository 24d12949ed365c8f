package dst

import (
	"context"
	"time"

	"troupe/messages"
	"troupe/node/backend"
	"troupe/node/shutdown"
)

// StopNode is the kind of fault where an operator stops Node, and starts it again For after it has
// stopped.
const StopNode FaultKind = "stop-node"

const (
	stopGrace   = 500 * time.Millisecond // during which it still accepts requests
	stopTimeout = 4 * time.Second        // for the requests in flight
)

// shutDown stops the node as the product does: its gateway drains, other nodes take over its
// replicas, and the connections that are left break. It then calls stopped.
func (n *Node) shutDown(stopped func()) {
	status := &backend.Status{Node: n.cfg.Name, System: n.system}
	s := &shutdown.Shutdown{Config: shutdown.Config{
		Gateway: n.serving.gateway, Web: &n.serving, SetLeaving: n.setLeaving, OnLeaving: func() {},
		HavePeers: n.nodes.HavePeers,
		Status: func(ctx context.Context) (*messages.NodeStatus, error) {
			defer n.takeTurn("shutdown")
			return replicasOf(ctx, status, n.cfg.Name)
		},
		Stopping: n.serving.setStopping, Stop: func() { n.finish(stopped) },
		Timeout: stopTimeout, Log: n.cfg.Log, Runtime: n.runtime,
	}}
	n.runtime.Go(func() {
		s.Drain(context.Background(), stopGrace)
		if err := s.Finish(context.Background()); err != nil {
			n.cfg.Log.Info().Err(err).Msg("stopped")
		}
	})
}

// finish stops the parts of the node. What is left then is lost as in a crash.
func (n *Node) finish(stopped func()) {
	n.end()
	<-n.ended
	n.takeTurn("stopped")
	if !n.crashed {
		n.Crash()
		stopped()
	}
}

// replicasOf counts the replicas and sequences of a node, as its router knows them. Queries to the
// replicas themselves would time out at the same instant as the context of all.
func replicasOf(ctx context.Context, status *backend.Status, node string) (*messages.NodeStatus, error) {
	view, err := status.Cluster(ctx)
	s := &messages.NodeStatus{}
	for _, r := range view.GetReplicas() {
		if r.GetNode() == node {
			s.Replicas, s.Running, s.Waiting = s.Replicas+1, s.Running+r.GetRunning(), s.Waiting+r.GetWaiting()
		}
	}
	return s, err
}

// setLeaving marks the node's record as leaving. The caller continues in a task of its own, since
// what waits to write the record goes on too.
func (n *Node) setLeaving(ctx context.Context) error {
	defer n.takeTurn("leaving")
	return n.members.SetLeaving(ctx)
}

// setStopping records that the gateway refuses requests from now on.
func (s *serving) setStopping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// isStopping reports whether the gateway refuses requests because its node stops.
func (s *serving) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// EndKeepAlives implements shutdown.Web. Every connection serves one request.
func (s *serving) EndKeepAlives() {}

// Shutdown implements shutdown.Web. Requests are refused until the node has stopped.
func (s *serving) Shutdown() error { return nil }

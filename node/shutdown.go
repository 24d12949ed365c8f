package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/messages"
)

// probeShutdownTimeout is how long answers to probes and scrapers may take when no other request is
// in flight.
const probeShutdownTimeout = time.Second

// Drain starts the shutdown: /ready answers 503, and the other nodes take over the replicas of this
// one. For a grace period the node still serves requests, if possible on other nodes' replicas,
// because load balancers poll /ready at intervals. Drain returns after that or when ctx ends; call
// Stop next.
func (n *Node) Drain(ctx context.Context, grace time.Duration) {
	n.gateway.Drain()
	n.announceLeaving(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(grace):
	}
}

// Stop refuses new requests. It stops the node when those in flight have finished and other nodes
// have taken over its replicas, or when ctx ends. Until then the port stays open for probes.
func (n *Node) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DrainTimeout)
	defer cancel()
	n.auditNode("node.stopped")
	n.gateway.Close()
	for _, s := range n.servers {
		s.SetKeepAlivesEnabled(false) // also closes idle connections
	}
	n.announceLeaving(ctx)
	open := n.gateway.Wait(ctx)
	n.awaitHandover(ctx)
	err := n.shutWeb()
	if open > 0 {
		err = errors.Join(fmt.Errorf("%d requests were cut off: %w", open, ctx.Err()), err)
	}
	n.teardown()
	return err
}

// shutWeb stops the HTTP servers. Probes in flight have probeShutdownTimeout to finish.
func (n *Node) shutWeb() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeShutdownTimeout)
	defer cancel()
	for _, s := range n.servers {
		if s.Shutdown(ctx) != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// announceLeaving marks this node as leaving, once. If NATS does not answer soon, the other nodes
// detect its exit instead.
func (n *Node) announceLeaving(ctx context.Context) {
	n.announceOnce.Do(func() {
		if n.hasPeers() {
			close(n.leaving) // the other nodes take the requests over NATS from now on
		}
		ctx, cancel := context.WithTimeout(ctx, leavingTimeout)
		defer cancel()
		if err := n.members.SetLeaving(ctx); err != nil {
			n.cfg.Log.Warn().Err(err).Msg("cannot announce that this node leaves; the other nodes will detect it")
		}
	})
}

// awaitHandover waits until other nodes have taken over this node's replicas, as long as there are
// such nodes.
func (n *Node) awaitHandover(ctx context.Context) {
	began := time.Now()
	for n.hasPeers() && ctx.Err() == nil {
		s, err := n.NodeStatus(ctx)
		idle := s.GetRunning()+s.GetWaiting() == 0
		if err != nil || s.GetReplicas() == 0 || idle && time.Since(began) > rescheduleTimeout {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// hasPeers reports whether another live node is not leaving.
func (n *Node) hasPeers() bool {
	return slices.ContainsFunc(n.members.Live(), func(m *messages.Member) bool {
		return m.GetName() != n.cfg.Name && m.GetState() == messages.MemberState_MEMBER_STATE_UP
	})
}

func (n *Node) teardown() {
	for i := len(n.closers) - 1; i >= 0; i-- {
		n.closers[i]()
	}
	n.closers = nil
}

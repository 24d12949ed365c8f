package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/messages"
)

// probeShutdownTimeout is how long answers to probes and scrapers may take once no request is under way.
const probeShutdownTimeout = time.Second

// Drain begins the node's end: /ready answers 503, and the others take over what this node serves. For a
// grace period it still serves requests, on the replicas of other nodes where there are some, since balancers
// look at /ready only now and then. It returns after that, or when ctx ends; Stop comes next.
func (n *Node) Drain(ctx context.Context, grace time.Duration) {
	n.gateway.Drain()
	n.announceLeaving(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(grace):
	}
}

// Stop refuses new requests, and takes the node apart once those under way have ended and others serve what it
// served, or ctx ends. Until then its port stays open for probes.
func (n *Node) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DrainTimeout)
	defer cancel()
	n.auditNode("node.stopped")
	n.gateway.Close()
	for _, s := range n.servers {
		s.SetKeepAlivesEnabled(false) // closes idle connections too
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

// shutWeb ends the HTTP servers. Connections on which a probe is being answered have a moment to finish.
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

// announceLeaving tells the others once, if NATS answers soon: without it there is nobody to tell, and what
// runs here may finish all the same.
func (n *Node) announceLeaving(ctx context.Context) {
	n.announceOnce.Do(func() {
		if n.hasPeers() {
			close(n.leaving) // they answer what comes over NATS from now on
		}
		ctx, cancel := context.WithTimeout(ctx, leavingTimeout)
		defer cancel()
		if err := n.members.SetLeaving(ctx); err != nil {
			n.cfg.Log.Warn().Err(err).Msg("the others will notice when this node is gone")
		}
	})
}

// awaitHandover waits until others serve what this node did, as long as there are others that could.
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

// others reports whether there is another node that stays.
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

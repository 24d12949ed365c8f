package troupe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/messages"
)

// Stop leaves the cluster: others take over what this node serves, requests under way finish for a while, then everything ends.
func (n *Node) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DrainTimeout)
	defer cancel()
	n.did("node.stopped")
	if err := n.sayLeaving(ctx); err != nil {
		n.cfg.Log.Warn().Err(err).Msg("the others will notice when this node is gone")
	}
	err := n.web.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("%d requests were cut off: %w", n.calls.Open(), err), n.web.Close())
	}
	n.handOver(ctx)
	n.takeApart()
	return err
}

// sayLeaving tells the others, if NATS answers soon: without it there is nobody to tell, and what runs here may finish all the same.
func (n *Node) sayLeaving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	return n.members.SetLeaving(ctx)
}

// handOver waits until others serve what this node did, as long as there are others that could.
func (n *Node) handOver(ctx context.Context) {
	began := time.Now()
	for n.others() && ctx.Err() == nil {
		s, err := n.NodeStatus(ctx)
		idle := s.GetRunning()+s.GetWaiting() == 0
		if err != nil || s.GetReplicas() == 0 || idle && time.Since(began) > roomWithin {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// others reports whether there is another node that stays.
func (n *Node) others() bool {
	return slices.ContainsFunc(n.members.Live(), func(m *messages.Member) bool {
		return m.GetName() != n.cfg.Name && m.GetState() == messages.MemberState_MEMBER_STATE_UP
	})
}

func (n *Node) takeApart() {
	for i := len(n.undo) - 1; i >= 0; i-- {
		n.undo[i]()
	}
	n.undo = nil
}

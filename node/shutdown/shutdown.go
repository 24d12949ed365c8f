// Package shutdown drains and stops a node: the other nodes take over its replicas, and requests in
// flight finish.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	leavingTimeout    = 3 * time.Second // for the other nodes to learn that this node leaves
	rescheduleTimeout = 3 * time.Second // for another node to be chosen for an idle replica of a leaving node
	handoverPoll      = 50 * time.Millisecond
)

// Gateway accepts the requests of clients.
type Gateway interface {
	Drain()                       // makes the node not ready
	Close()                       // refuses new requests
	Wait(ctx context.Context) int // waits for the requests in flight and returns the number that are left
}

// Web serves HTTP.
type Web interface {
	EndKeepAlives()
	Shutdown() error
}

// Config configures a Shutdown.
type Config struct {
	Gateway Gateway
	Web     Web
	// SetLeaving announces to the other nodes that this node is leaving.
	SetLeaving func(ctx context.Context) error
	// HavePeers reports whether there is another node that is not leaving.
	HavePeers func() bool
	// OnLeaving is called once the other nodes handle the requests over NATS. It is not called
	// without peers.
	OnLeaving func()
	Status    func(ctx context.Context) (*messages.NodeStatus, error) // of this node
	Stopping  func()                                                  // called when the stop begins
	Stop      func()                                                  // stops all parts of the node
	Timeout   time.Duration                                           // timeout of the stop, not counting Config.Stop
	Log       zerolog.Logger
	Runtime   supervise.Runtime
}

// Shutdown shuts a node down.
type Shutdown struct {
	Config
	announce sync.Once
}

// Drain starts the shutdown: /ready answers 503, and the other nodes take over the replicas of this
// node. During the grace period the node still serves requests, if possible with replicas on other
// nodes, because load balancers poll /ready only at intervals. Drain returns after the grace period
// or when ctx ends. The caller must call Finish next.
func (s *Shutdown) Drain(ctx context.Context, grace time.Duration) {
	s.Gateway.Drain()
	s.announceLeaving(ctx)
	select {
	case <-ctx.Done():
	case <-s.Runtime.After(grace):
	}
}

// Finish refuses new requests. It stops the node once the requests in flight have finished and
// other nodes have taken over its replicas, or when ctx ends. Until then the port stays open for
// probes.
func (s *Shutdown) Finish(ctx context.Context) error {
	ctx, cancel := s.Runtime.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.Stopping()
	s.Gateway.Close()
	s.Web.EndKeepAlives()
	s.announceLeaving(ctx)
	open := s.Gateway.Wait(ctx)
	s.awaitHandover(ctx)
	err := s.Web.Shutdown()
	if open > 0 {
		err = errors.Join(fmt.Errorf("%d requests were cut off: %w", open, ctx.Err()), err)
	}
	s.Stop()
	return err
}

// announceLeaving marks this node as leaving, once. If NATS does not answer in time, the other
// nodes detect the node's exit instead.
func (s *Shutdown) announceLeaving(ctx context.Context) {
	s.announce.Do(func() {
		if s.HavePeers() {
			s.OnLeaving()
		}
		ctx, cancel := s.Runtime.WithTimeout(ctx, leavingTimeout)
		defer cancel()
		if err := s.SetLeaving(ctx); err != nil {
			s.Log.Warn().Err(err).Msg("cannot announce that this node leaves; the other nodes will detect it")
		}
	})
}

// awaitHandover waits until other nodes have taken over this node's replicas, as long as there are
// other nodes.
func (s *Shutdown) awaitHandover(ctx context.Context) {
	began := s.Runtime.Now()
	for s.HavePeers() && ctx.Err() == nil {
		status, err := s.Status(ctx)
		idle := status.GetRunning()+status.GetWaiting() == 0
		if err != nil || status.GetReplicas() == 0 || idle && s.Runtime.Now().Sub(began) > rescheduleTimeout {
			return
		}
		select {
		case <-ctx.Done():
		case <-s.Runtime.After(handoverPoll):
		}
	}
}

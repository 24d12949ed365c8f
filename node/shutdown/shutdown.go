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
	rescheduleTimeout = 3 * time.Second // for an idle replica of a leaving node to be placed on another node
	handoverPoll      = 50 * time.Millisecond
)

// Gateway takes the requests of clients.
type Gateway interface {
	Drain()                       // makes the node unready
	Close()                       // refuses new requests
	Wait(ctx context.Context) int // waits for the requests in flight, and returns how many are left
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
	// SetLeaving announces to the other nodes that this one leaves.
	SetLeaving func(ctx context.Context) error
	// HavePeers reports whether there is another node that stays.
	HavePeers func() bool
	// OnLeaving is called once the other nodes take the requests over NATS; not without peers.
	OnLeaving func()
	Status    func(ctx context.Context) (*messages.NodeStatus, error) // of this node
	Stopping  func()                                                  // called when Stop begins
	Stop      func()                                                  // stops everything
	Timeout   time.Duration                                           // of Stop, apart from Config.Stop
	Log       zerolog.Logger
	Runtime   supervise.Runtime
}

// Shutdown shuts a node down.
type Shutdown struct {
	Config
	announce sync.Once
}

// Drain starts the shutdown: /ready answers 503, and the other nodes take over the replicas of this
// one. For a grace period the node still serves requests, if possible on other nodes' replicas,
// because load balancers poll /ready at intervals. Drain returns after that or when ctx ends; call
// Finish next.
func (s *Shutdown) Drain(ctx context.Context, grace time.Duration) {
	s.Gateway.Drain()
	s.announceLeaving(ctx)
	select {
	case <-ctx.Done():
	case <-s.Runtime.After(grace):
	}
}

// Finish refuses new requests. It stops the node when those in flight have finished and other nodes
// have taken over its replicas, or when ctx ends. Until then the port stays open for probes.
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

// announceLeaving marks this node as leaving, once. If NATS does not answer soon, the other nodes
// detect its exit instead.
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
// such nodes.
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

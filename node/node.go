package node

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"troupe/control"
	"troupe/core/schedule"
	"troupe/messages"
	"troupe/node/shutdown"
	"troupe/node/steps"
)

// readyPoll is the time between two checks of a deployment that is not ready yet.
const readyPoll = 20 * time.Millisecond

// Node is a running node.
type Node struct {
	parts    *parts
	shutdown *shutdown.Shutdown
}

// Start starts a node. If it fails, all parts that it started are stopped again.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	p := newParts(cfg.withDefaults())
	return run(ctx, p, p.steps())
}

// run runs the start steps.
func run(ctx context.Context, p *parts, all []steps.Step) (*Node, error) {
	running, err := steps.Start(ctx, all, p.cfg.Log)
	if err != nil {
		return nil, err
	}
	p.audit.Node("node.started")
	return &Node{parts: p, shutdown: &shutdown.Shutdown{Config: shutdown.Config{
		Gateway: p.gateway, Web: p.web, SetLeaving: p.members.SetLeaving, HavePeers: p.nodes.HavePeers,
		OnLeaving: func() { close(p.signals.leaving) }, Status: p.control.NodeStatus,
		Stopping: func() { p.audit.Node("node.stopped") }, Stop: running.Stop,
		Timeout: p.cfg.DrainTimeout, Log: p.cfg.Log, Runtime: p.cfg.Runtime,
	}}}, nil
}

// Drain starts the shutdown: /ready answers 503, and the other nodes take over the replicas of this
// node. During the grace period the node still serves requests, if possible with replicas on other
// nodes, because load balancers poll /ready only at intervals. Drain returns after the grace period
// or when ctx ends. The caller must call Stop next.
func (n *Node) Drain(ctx context.Context, grace time.Duration) { n.shutdown.Drain(ctx, grace) }

// Stop refuses new requests. It stops the node once the requests in flight have finished and other
// nodes have taken over its replicas, or when ctx ends. Until then the port stays open for probes.
func (n *Node) Stop(ctx context.Context) error { return n.shutdown.Finish(ctx) }

// Backend returns the backend of this node's control service.
func (n *Node) Backend() control.Backend { return n.parts.control.Backend }

// HTTPAddr returns the address of the gateway.
func (n *Node) HTTPAddr() string { return n.parts.web.Address() }

// Handler returns the handler of the gateway, for use without a network.
func (n *Node) Handler() http.Handler { return n.parts.gateway }

// NATSURL returns the URL for NATS clients.
func (n *Node) NATSURL() string { return n.parts.bus.URL() }

// Member returns this node as the other nodes know it.
func (n *Node) Member() *messages.Member { return n.parts.members.Self() }

// TierDetails describes the tiers below HBM for people: size and medium.
func (n *Node) TierDetails() []string { return n.parts.tiers.Details() }

// Ready waits until every deployment of the configuration is ready or stopped. It fails as soon as
// one of them has failed.
func (n *Node) Ready(ctx context.Context) error {
	for _, spec := range n.parts.cfg.Deployments {
		for {
			d, err := n.parts.control.Deployment(ctx, spec.GetName())
			if err == nil && (schedule.RestOf(d.GetSpec().Bounds()) != schedule.Awake || d.GetSpec().Preempted()) {
				break
			}
			if err == nil && len(d.GetReplicas()) > 0 &&
				d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY {
				break
			}
			if err == nil && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_FAILED {
				return fmt.Errorf("model %s: %s", spec.GetName(), d.GetDetail())
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("model %s: %w", spec.GetName(), ctx.Err())
			case <-n.parts.cfg.Runtime.After(readyPoll):
			}
		}
	}
	return nil
}

package dst

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
	"troupe/node/query"
)

// restlessGateway checks that nothing is left of earlier requests in the gateway of a node.
func (c *cluster) restlessGateway(n *Node, report func(string, ...any)) {
	name, s := n.cfg.Name, &n.serving
	s.mu.Lock()
	for _, open := range s.connections {
		report("%s still serves %s", name, open.id)
	}
	s.mu.Unlock()
	if open := s.calls.Open(); open > 0 {
		report("%s has %d open calls", name, open)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if inFlight := s.gateway.Wait(ended); inFlight > 0 {
		report("%s has %d requests behind its gate", name, inFlight)
	}
	for _, gauge := range []string{"troupe_gateway_requests_in_flight", "troupe_gateway_body_bytes"} {
		if v, err := gaugeOf(s.registry, gauge); err != nil || v != 0 {
			report("%s: %s is %v: %v", name, gauge, v, err)
		}
	}
	for _, id := range n.sessions() {
		report("%s still has the actor %s", name, id)
	}
	usage, ok := ask[*messages.UsageStatus](c, n, n.pid(query.Usage), &messages.GetUsage{})
	if !ok {
		report("the usage actor of %s does not answer", name)
	}
	for _, u := range usage.GetClients() {
		if u.GetRequestsInFlight() != 0 || u.GetTokensInFlight() != 0 {
			report("%s counts %d requests and %d tokens of %s in flight", name, u.GetRequestsInFlight(),
				u.GetTokensInFlight(), u.GetClient())
		}
	}
}

// closeWithin is the time after which the sessions of a request that has ended must have stopped.
const closeWithin = 10 * time.Millisecond

// checkSessions checks, a moment after a request has ended at a node, that there is no session
// without an open call. Crashes of the actors concerned delay that.
func (c *cluster) checkSessions(n *Node) {
	crashes := func(f Fault) bool { return f.Actor == "session" || f.Actor == "gateway" }
	if slices.ContainsFunc(c.result.Faults, crashes) {
		return
	}
	c.world.at(time.Now().Add(closeWithin), func() string { return "check sessions of " + n.cfg.Name }, func() {
		direct := func(id string) bool { return !strings.HasPrefix(id, query.Gateway) }
		sessions := slices.DeleteFunc(n.sessions(), direct)
		if open := n.serving.calls.Open(); !n.crashed && !n.dispatcher.isPaused() && len(sessions) > open {
			c.fail("%s has %d sessions and %d open calls", n.cfg.Name, len(sessions), open)
		}
	})
}

// isPaused reports whether the actors of the node handle no messages.
func (d *Dispatcher) isPaused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paused
}

// gaugeOf returns the value of a gauge without labels.
func gaugeOf(from prometheus.Gatherer, name string) (value float64, err error) {
	all, err := from.Gather()
	for _, family := range all {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				value += m.GetGauge().GetValue()
			}
		}
	}
	return value, err
}

// sessions returns the actors of sessions on the node.
func (n *Node) sessions() (ids []string) {
	var walk func([]*messages.ActorNode)
	walk = func(all []*messages.ActorNode) {
		for _, a := range all {
			if a.GetKind() == "session" {
				ids = append(ids, a.GetId())
			}
			walk(a.GetChildren())
		}
	}
	walk(n.tree.Snapshot())
	return ids
}

package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"troupe/gateway/openai"
	"troupe/messages"
)

// phase is how far a gateway has gone towards its end. It only grows.
//
//	phase     /ready  a new request           its connection
//	taking    200     is served               stays
//	draining  503     is served               is closed after the answer
//	closed    503     is refused with 503     is closed after the answer
//
// Requests under way go on in each of them.
type phase uint8

const (
	accepting phase = iota
	draining
	refusing
)

// door counts the requests under way and knows whether new ones are let in. It is safe for concurrent
// use.
type requestGate struct {
	mu       sync.Mutex
	phase    phase
	inFlight int
	idle     chan struct{} // closed when nothing is open any more; nil: nothing waits for that
}

// enter lets a request in, unless the door is closed.
func (d *requestGate) enter() (phase, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == refusing {
		return refusing, false
	}
	d.inFlight++
	return d.phase, true
}

// leave counts out a request that was let in.
func (d *requestGate) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inFlight--; d.inFlight == 0 && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}

// advance goes on to a phase, never back.
func (d *requestGate) advance(to phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = max(d.phase, to)
}

// draining reports whether the gateway is about to end.
func (d *requestGate) draining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase != accepting
}

// wait returns when no request is under way, or ctx ends, with the number of those that are.
func (d *requestGate) waitIdle(ctx context.Context) int {
	d.mu.Lock()
	if d.inFlight == 0 {
		d.mu.Unlock()
		return 0
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	empty := d.idle
	d.mu.Unlock()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFlight
}

// Drain makes /ready answer 503. Requests are still served, and each answer closes its connection, so that
// clients go to another node.
func (g *Gateway) Drain() { g.gate.advance(draining) }

// Close refuses requests that arrive from now on, over HTTP and NATS. Probes, metrics and pages are still
// answered.
func (g *Gateway) Close() { g.gate.advance(refusing) }

// Wait returns when no request is under way, or ctx ends, with the number of those that are.
func (g *Gateway) Wait(ctx context.Context) int { return g.gate.waitIdle(ctx) }

// drainRetryAfter is how long a client should wait before it asks a node again that refused it because it ends.
const drainRetryAfter = time.Second

// drainingError is the answer to a request that arrives when the node takes no more.
func drainingError() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_DRAINING,
		"this node is about to end and takes no more requests; send it to another one")
	e.RetryAfter = drainRetryAfter
	return e
}

// admit lets a request in, and answers it otherwise. Each admitted request must leave.
func (g *Gateway) enterGate(w http.ResponseWriter, c caller) bool {
	at, ok := g.gate.enter()
	if at != accepting {
		w.Header().Set("Connection", "close")
	}
	if !ok {
		g.fail(w, asked{caller: c, endpoint: "draining"}, drainingError())
	}
	return ok
}

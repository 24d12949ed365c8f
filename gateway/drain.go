package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"troupe/gateway/openai"
	"troupe/gateway/web"
	"troupe/messages"
)

// phase is the stage of a gateway's shutdown. It only increases.
//
//	phase      /ready  new requests        connection of a request
//	accepting  200     served              kept open
//	draining   503     served              closed after the response
//	refusing   503     refused with 503    closed after the response
//
// Requests in flight continue in every phase.
type phase uint8

const (
	accepting phase = iota
	draining
	refusing
)

// requestGate counts the requests in flight and refuses new ones once the gateway has closed. It is
// safe for concurrent use.
type requestGate struct {
	mu       sync.Mutex
	phase    phase
	inFlight int
	idle     chan struct{} // closed when no request is in flight; nil: no waiter
}

// enter counts a request in and returns the current phase, or false if the gate refuses it.
func (g *requestGate) enter() (phase, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == refusing {
		return refusing, false
	}
	g.inFlight++
	return g.phase, true
}

// leave counts a request out.
func (g *requestGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight--; g.inFlight == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// advance moves to a later phase. It ignores an earlier one.
func (g *requestGate) advance(to phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = max(g.phase, to)
}

// draining reports whether the gateway is shutting down.
func (g *requestGate) draining() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase != accepting
}

// waitIdle waits until no request is in flight or ctx ends. It returns the number of requests in
// flight.
func (g *requestGate) waitIdle(ctx context.Context) int {
	g.mu.Lock()
	if g.inFlight == 0 {
		g.mu.Unlock()
		return 0
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	empty := g.idle
	g.mu.Unlock()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

// Drain makes /ready respond with 503. Requests are still served, and each response closes its
// connection, so that clients move to other nodes.
func (g *Gateway) Drain() { g.gate.advance(draining) }

// Close refuses new requests over HTTP and NATS. Probes, metrics and pages are still served.
func (g *Gateway) Close() { g.gate.advance(refusing) }

// Wait waits until no request is in flight or ctx ends. It returns the number of requests in
// flight.
func (g *Gateway) Wait(ctx context.Context) int { return g.gate.waitIdle(ctx) }

// drainRetryAfter is the Retry-After of a request that a closed gateway refuses.
const drainRetryAfter = time.Second

// drainingError returns the error for a request to a closed gateway.
func drainingError() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_DRAINING,
		"this node is shutting down and accepts no more requests; send it to another node")
	e.RetryAfter = drainRetryAfter
	return e
}

// enterGate counts a request in, or responds with an error and returns false. Each counted request
// must leave the gate.
func (g *Gateway) enterGate(w http.ResponseWriter, r *http.Request, c caller) bool {
	at, ok := g.gate.enter()
	if at != accepting {
		web.CloseAfter(w, r)
	}
	if !ok {
		g.respondError(w, requestInfo{caller: c, endpoint: "draining"}, drainingError())
	}
	return ok
}

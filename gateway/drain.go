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
	taking phase = iota
	draining
	closed
)

// door counts the requests under way and knows whether new ones are let in. It is safe for concurrent
// use.
type door struct {
	mu    sync.Mutex
	phase phase
	open  int
	empty chan struct{} // closed when nothing is open any more; nil: nothing waits for that
}

// enter lets a request in, unless the door is closed.
func (d *door) enter() (phase, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == closed {
		return closed, false
	}
	d.open++
	return d.phase, true
}

// leave counts out a request that was let in.
func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open--; d.open == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// advance goes on to a phase, never back.
func (d *door) advance(to phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = max(d.phase, to)
}

// closing reports whether the gateway is about to end.
func (d *door) closing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase != taking
}

// wait returns when no request is under way, or ctx ends, with the number of those that are.
func (d *door) wait(ctx context.Context) int {
	d.mu.Lock()
	if d.open == 0 {
		d.mu.Unlock()
		return 0
	}
	if d.empty == nil {
		d.empty = make(chan struct{})
	}
	empty := d.empty
	d.mu.Unlock()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// Drain makes /ready answer 503. Requests are still served, and each answer closes its connection, so that
// clients go to another node.
func (g *Gateway) Drain() { g.door.advance(draining) }

// Close refuses requests that arrive from now on, over HTTP and NATS. Probes, metrics and pages are still
// answered.
func (g *Gateway) Close() { g.door.advance(closed) }

// Wait returns when no request is under way, or ctx ends, with the number of those that are.
func (g *Gateway) Wait(ctx context.Context) int { return g.door.wait(ctx) }

// closedFor is how long a client should wait before it asks a node again that refused it because it ends.
const closedFor = time.Second

// drainingNow is the answer to a request that arrives when the node takes no more.
func drainingNow() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_DRAINING,
		"this node is about to end and takes no more requests; send it to another one")
	e.RetryAfter = closedFor
	return e
}

// admit lets a request in, and answers it otherwise. Each admitted request must leave.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request, c caller) bool {
	at, ok := g.door.enter()
	if at != taking {
		web.CloseAfter(w, r)
	}
	if !ok {
		g.fail(w, asked{caller: c, endpoint: "draining"}, drainingNow())
	}
	return ok
}

package gateway

import (
	"context"
	"time"

	"troupe/core/demand"
	"troupe/messages"
)

// maxOpenCalls bounds the open calls of one request. More calls would only wait in the queues of
// replicas, or fail a started request where a queue is full.
const maxOpenCalls = 32

// submit reserves the tokens of a request and opens the calls of its choices, except followers.
func (g *Gateway) submit(_ context.Context, gen *generation) error {
	tokens := gen.maxTokens()
	if err := g.cfg.Quotas.reserve(gen.client, tokens); err != nil {
		return err
	}
	gen.reserved = tokens
	gen.exchange.submitted(gen)
	for _, c := range gen.choices {
		if !c.isFollower {
			g.startCall(gen, c)
		}
	}
	gen.opened = gen.rt.Now()
	return nil
}

// maxTokens returns how many tokens a generation may use: its prompts and max_tokens of every
// choice.
func (gen *generation) maxTokens() (n int64) {
	for i, c := range gen.choices {
		if i%gen.req.N == 0 {
			n += int64(len(c.prompt))
		}
		n += int64(c.call.Sequence.GetSampling().GetMaxTokens())
	}
	return n
}

// memoryBytes estimates the memory that a generation holds: prompt tokens and echoed text.
func (gen *generation) memoryBytes() (n int64) {
	for i, c := range gen.choices {
		if i%gen.req.N == 0 {
			n += int64(4 * len(c.prompt))
		}
		n += int64(len(c.echoed))
	}
	return n
}

// startCall opens the call of a choice, or defers it until another call of the request ends.
func (g *Gateway) startCall(gen *generation, c *choice) {
	if gen.openCalls >= maxOpenCalls {
		gen.pending = append(gen.pending, c)
		return
	}
	gen.openCalls++
	c.open, c.call.Placed = true, gen.opened
	g.cfg.Calls.add(c.call)
	g.demand(gen, func(w *demand.Window, now time.Time) { w.Arrived(now) })
	g.recordArrival(gen, c)
	g.cfg.Root.Send(g.cfg.Actor, &messages.OpenSession{RequestId: c.call.ID})
}

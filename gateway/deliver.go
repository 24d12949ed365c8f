package gateway

import (
	"context"
	"time"

	"troupe/core/demand"
	"troupe/gateway/openai"
	"troupe/messages"
)

// deadlineGrace is how long past its deadline a request waits for the session to report the error.
const deadlineGrace = time.Second

// deliver writes the output of the calls as it arrives, and ends the response. It returns early if
// a choice fails or ctx ends, and always soon after the request's deadline.
func (g *Gateway) deliver(ctx context.Context, gen *generation) error {
	late := gen.rt.After(gen.deadline.Sub(gen.rt.Now()) + deadlineGrace)
	for gen.unfinished > 0 {
		if err := gen.await(ctx, late); err != nil {
			return err
		}
		for _, c := range gen.choices {
			if err := g.advance(gen, c); err != nil {
				return err
			}
		}
	}
	gen.finished = gen.rt.Now()
	return gen.exchange.finish(gen)
}

// await waits until a call has made progress. It returns an error once ctx has ended or late has
// fired, even if there is progress: among several ready channels, select chooses at random.
func (gen *generation) await(ctx context.Context, late <-chan time.Time) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	select {
	case <-late:
		return timeIsUp()
	default:
	}
	select {
	case <-gen.wake:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	case <-late:
		return timeIsUp()
	}
}

func timeIsUp() error {
	return openai.Refusal(messages.Reason_REASON_DEADLINE,
		"the request's time is up; raise timeout, or lower max_tokens")
}

// advance writes the new output of a choice. Once it has tokens, the KV blocks of its prompt exist
// and its followers start.
func (g *Gateway) advance(gen *generation, c *choice) error {
	if !c.open {
		return nil
	}
	p := c.call.since(c.decoded)
	if p.refused != nil {
		g.demand(gen, func(w *demand.Window, now time.Time) { w.Refused(now) })
		return publicError(p.refused)
	}
	if len(p.tokens) == 0 && !p.ended() {
		return nil
	}
	if c.firstTokens.IsZero() && len(p.tokens) > 0 {
		g.firstTokens(gen, c)
	}
	gen.metrics.tokensDelivered(gen, c, len(p.tokens))
	for _, f := range c.followers {
		g.startCall(gen, f)
	}
	c.followers = nil
	out := c.decode(p)
	if out.finish != "" {
		g.sequenceFinished(gen, c)
		g.recordEnd(gen, c, out.finish, nil)
		gen.unfinished--
		g.endCall(c)
		gen.openCalls--
		if len(gen.pending) > 0 {
			next := gen.pending[0]
			gen.pending = gen.pending[1:]
			g.startCall(gen, next)
		}
	}
	if out.empty() {
		return nil // a possible stop string is held back
	}
	return gen.exchange.write(gen, out)
}

// endCall ends the call of a choice and closes its session if that still runs.
func (g *Gateway) endCall(c *choice) {
	if !c.open {
		return
	}
	c.open = false
	c.call.leave()
	g.cfg.Calls.remove(c.call.ID)
	if !c.call.since(c.decoded).ended() {
		g.cfg.Root.Send(g.cfg.Actor, &messages.CloseSession{RequestId: c.call.ID})
	}
}

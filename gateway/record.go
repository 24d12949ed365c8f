package gateway

import (
	"time"

	"troupe/core/kv"
	"troupe/gateway/openai"
	"troupe/recording"
)

// recordArrival notes when a sequence was requested: a follower when its call opens, and the others when the request
// was admitted.
func (g *Gateway) recordArrival(gen *generation, c *choice) {
	if !g.cfg.Recorder.Active() {
		return
	}
	if c.arrived = gen.began; c.isFollower {
		c.arrived = gen.rt.Now()
	}
}

// recordEnd records a sequence that has ended: with all its tokens, or with an error.
func (g *Gateway) recordEnd(gen *generation, c *choice, end string, e *openai.Error) {
	if c.arrived.IsZero() || !g.cfg.Recorder.Active() {
		return
	}
	now := gen.rt.Now()
	output := c.call.Output()
	q := recording.Request{
		ID: c.call.ID, Model: gen.deployment, Class: className(gen.req.Priority),
		Prompt: len(c.prompt), Cached: c.cached, Output: len(output) + c.endTokens,
		MaxOutput:   int(c.call.Sequence.GetSampling().GetMaxTokens()),
		BlockTokens: gen.blockTokens, End: end, Took: recording.Seconds(now.Sub(c.arrived)),
	}
	if gen.adapter != nil {
		q.Adapter = gen.adapter.Key()
	}
	if e != nil {
		q.End, q.Reason = recording.Refused, e.Reason.String()
	}
	if !c.firstTokens.IsZero() {
		q.TTFT = seconds(c.firstTokens.Sub(c.arrived))
		if len(output) > 1 {
			q.TPOT = seconds(now.Sub(c.firstTokens) / time.Duration(len(output)-1))
		}
	}
	var blocks []uint64
	if gen.blockTokens > 0 {
		tokens := append(append(make([]uint32, 0, len(c.prompt)+len(output)), c.prompt...), output...)
		blocks = kv.Fingerprints(kv.Hashes(kv.Root(gen.deployment, q.Adapter, gen.salt), tokens, gen.blockTokens))
	}
	g.cfg.Recorder.Request(c.arrived, q, gen.client.Name, blocks)
	c.arrived = time.Time{}
}

func seconds(d time.Duration) *float64 {
	s := recording.Seconds(d)
	return &s
}

// recordFailure records the sequences of a request that ended with an error, or the request if none had begun.
func (g *Gateway) recordFailure(gen *generation, e *openai.Error) {
	if e == nil || !g.cfg.Recorder.Active() {
		return
	}
	opened := false
	for _, c := range gen.choices {
		opened = opened || c.open || c.started
		g.recordEnd(gen, c, "", e)
	}
	if opened || gen.deployment == "" {
		return // it began before the recording, or names no model of the cluster
	}
	q := recording.Request{
		ID: newID(gen.rt), Model: gen.deployment, Class: className(gen.req.Priority), End: recording.Refused,
		Reason: e.Reason.String(), Took: recording.Seconds(gen.rt.Now().Sub(gen.began)),
	}
	if gen.adapter != nil {
		q.Adapter = gen.adapter.Key()
	}
	for _, c := range gen.choices {
		q.Prompt += len(c.prompt)
	}
	g.cfg.Recorder.Request(gen.began, q, gen.client.Name, nil)
}

package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/gateway/openai"
	"troupe/messages"
)

// deadlineGrace is how long past its deadline a request waits for the session to report the error.
const deadlineGrace = time.Second

// maxOpenCalls bounds the open calls of one request. More calls would only wait in the queues of
// replicas, or fail a started request where a queue is full.
const maxOpenCalls = 32

// generation is a request being served, with one choice per sequence.
type generation struct {
	request    *openai.Request
	model      *model
	deployment string                // name of the deployment
	adapter    *messages.AdapterSpec // nil: the base model
	salt       []byte                // of the KV blocks
	client     string                // name of the quota client
	weight     float64               // of the client
	metrics    modelMetrics
	choices    []*choice
	wake       chan struct{} // receives when a call has progress
	unfinished int           // number of choices that have not finished
	openCalls  int           // number of open calls, at most maxOpenCalls
	pending    []*choice     // choices that start when a call ends
	began      time.Time
	deadline   time.Time
}

// prepare looks up the model, records it in info, and encodes the prompts into sequences.
func (g *Gateway) prepare(ctx context.Context, r *openai.Request, info *requestInfo) (gen *generation, err error) {
	defer recoverPanic(g.cfg.Log, &err)
	gen = &generation{request: r, wake: make(chan struct{}, 1), began: time.Now()}
	gen.deadline = gen.began.Add(r.Timeout)
	ctx, cancel := context.WithDeadline(ctx, gen.deadline)
	defer cancel()
	d, adapter, err := g.resolve(ctx, r.Model)
	if err != nil {
		return nil, err
	}
	gen.deployment, gen.adapter = d.GetSpec().GetName(), adapter
	info.model, info.adapter = gen.deployment, adapter.GetName()
	if gen.model, err = g.models.get(ctx, d); err != nil {
		return nil, err
	}
	if gen.salt, err = g.salt(info.caller, r.CacheSalt); err != nil {
		return nil, err
	}
	gen.metrics = g.metrics.forModel(gen.deployment)
	if err := g.applyPriority(r, info.caller, d.GetSpec().GetPriority()); err != nil {
		return nil, err
	}
	client, weight := info.client()
	gen.client, gen.weight = client.Name, weight
	prompts, err := g.encode(ctx, gen.model, r)
	if err != nil {
		return nil, err
	}
	return gen, gen.newChoices(prompts, int(d.GetSpec().GetBlockTokens()))
}

// newChoices creates the choices of each prompt. If a prompt fills KV blocks, its first choice
// leads: the others start when its blocks can be reused.
func (gen *generation) newChoices(prompts [][]uint32, blockTokens int) error {
	r, seed := gen.request, rand.Uint64()
	if r.Seed != nil {
		seed = *r.Seed
	}
	for i, tokens := range prompts {
		limit, err := gen.model.maxOutput(r, tokens)
		if err != nil {
			return err
		}
		lead := gen.addChoice(i, tokens, seed, limit)
		for n := 1; n < r.N; n++ {
			c := gen.addChoice(i, tokens, seed+uint64(n), limit)
			if len(tokens) > blockTokens {
				c.isFollower, lead.followers = true, append(lead.followers, c)
			}
		}
	}
	gen.unfinished = len(gen.choices)
	return nil
}

// addChoice adds a choice of a prompt.
func (gen *generation) addChoice(prompt int, tokens []uint32, seed uint64, limit uint32) *choice {
	r, sampling := gen.request, gen.request.Sampling
	if len(gen.choices) > 0 { // the first choice uses the request's own copy
		sampling = proto.Clone(sampling).(*messages.SamplingParams)
	}
	sampling.Seed, sampling.MaxTokens = seed, limit
	c := newChoice(len(gen.choices), gen.model.tokenizer, r, tokens)
	c.call = &Call{ID: newID(), wake: gen.wake, Sequence: &messages.SequenceSpec{
		Model: gen.deployment, Adapter: gen.adapter.GetName(), AdapterSpec: gen.adapter,
		Prompt: tokens, Sampling: sampling, Priority: r.Priority,
		Deadline: timestamppb.New(gen.deadline), CacheSalt: gen.salt,
		Client: gen.client, Weight: gen.weight,
	}}
	if r.Echo {
		c.echo(r.Prompts[prompt], gen.model.tokenizer, !r.KeepSpecial)
	}
	gen.choices = append(gen.choices, c)
	return c
}

// run opens the calls and passes every delta to write. It returns when all choices have finished,
// one has failed, or ctx ends. It always returns soon after the request's deadline.
func (g *Gateway) run(ctx context.Context, gen *generation, write func(delta) error) (err error) {
	defer recoverPanic(g.cfg.Log, &err)
	defer func() {
		for _, c := range gen.choices {
			g.endCall(c)
		}
	}()
	for _, c := range gen.choices {
		if !c.isFollower {
			g.startCall(gen, c)
		}
	}
	late := time.NewTimer(time.Until(gen.deadline) + deadlineGrace)
	defer late.Stop()
	for gen.unfinished > 0 {
		select {
		case <-gen.wake:
		case <-ctx.Done():
			return contextError(ctx)
		case <-late.C:
			return openai.Refusal(messages.Reason_REASON_DEADLINE,
				"the request's time is up; raise timeout, or lower max_tokens")
		}
		for _, c := range gen.choices {
			if err := g.advance(gen, c, write); err != nil {
				return err
			}
		}
	}
	return nil
}

// startCall opens the call of a choice, or defers it until another call of the request ends.
func (g *Gateway) startCall(gen *generation, c *choice) {
	if gen.openCalls >= maxOpenCalls {
		gen.pending = append(gen.pending, c)
		return
	}
	gen.openCalls++
	c.open = true
	g.cfg.Calls.add(c.call)
	g.cfg.Root.Send(g.cfg.Actor, &messages.OpenSession{RequestId: c.call.ID})
}

// endCall ends the call of a choice and closes its session if that still runs.
func (g *Gateway) endCall(c *choice) {
	if !c.open {
		return
	}
	c.open = false
	g.cfg.Calls.remove(c.call.ID)
	if !c.call.since(c.decoded).ended() {
		g.cfg.Root.Send(g.cfg.Actor, &messages.CloseSession{RequestId: c.call.ID})
	}
}

// advance writes the new output of a choice. Once it has tokens, the KV blocks of its prompt exist
// and its followers start.
func (g *Gateway) advance(gen *generation, c *choice, write func(delta) error) error {
	if !c.open {
		return nil
	}
	p := c.call.since(c.decoded)
	if p.refused != nil {
		return publicError(p.refused)
	}
	if len(p.tokens) == 0 && !p.ended() {
		return nil
	}
	gen.metrics.tokensDelivered(gen, c, len(p.tokens))
	for _, f := range c.followers {
		g.startCall(gen, f)
	}
	c.followers = nil
	out := c.decode(p)
	if out.finish != "" {
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
	return write(out)
}

// memoryBytes estimates the memory that a generation holds: prompt tokens and echoed text.
func (gen *generation) memoryBytes() (n int64) {
	for i, c := range gen.choices {
		if i%gen.request.N == 0 {
			n += int64(4 * len(c.prompt))
		}
		n += int64(len(c.echoed))
	}
	return n
}

// usage counts tokens: each prompt once, and all generated tokens including the one that ended an
// output.
func (gen *generation) usage() openai.Usage {
	var u openai.Usage
	for i, c := range gen.choices {
		if i%gen.request.N == 0 {
			u.Prompt += len(c.prompt)
			u.Cached += c.cached
		}
		u.Completion += c.decoded + c.endTokens
	}
	return u
}

// recoverPanic turns a panic into an error, so that it fails only one request.
func recoverPanic(log zerolog.Logger, err *error) {
	if p := recover(); p != nil {
		log.Error().
			Str("panic", supervise.PanicText(p)).
			Bytes("stack", debug.Stack()).
			Msg("request panicked in the gateway")
		*err = openai.Refusal(messages.Reason_REASON_INTERNAL, "the gateway failed to serve this request; see its log")
	}
}

// asError converts an error to OpenAI's form. It keeps the reason of a refusal.
func asError(err error) *openai.Error {
	var e *openai.Error
	var refused interface {
		GetReason() messages.Reason
		GetRetryAfter() *durationpb.Duration
	}
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &refused):
		return publicError(&messages.Refused{
			Reason: refused.GetReason(), Detail: err.Error(), RetryAfter: refused.GetRetryAfter(),
		})
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, actor.ErrTimeout):
		return openai.Refusal(messages.Reason_REASON_DEADLINE, "the request's time is up")
	case errors.Is(err, context.Canceled):
		return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
	}
	return publicError(&messages.Refused{Reason: messages.Reason_REASON_INTERNAL, Detail: err.Error()})
}

// publicError returns the error that clients see for a refusal. It hides paths of the host.
func publicError(r *messages.Refused) *openai.Error {
	detail := r.GetDetail()
	if r.GetReason() == messages.Reason_REASON_LOAD_FAILED {
		detail = loadFailedText
	}
	if r.GetReason().HTTPStatus() >= http.StatusInternalServerError {
		detail = withoutPaths(detail)
	}
	return openai.FromRefused(&messages.Refused{Reason: r.GetReason(), Detail: detail, RetryAfter: r.GetRetryAfter()})
}

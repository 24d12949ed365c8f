package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/engine/chat"
	"troupe/engine/tokenizer"
	"troupe/gateway/openai"
	"troupe/messages"
)

// grace is how much longer than its deadline a request waits for the session's own word.
const grace = time.Second

// generation is a request on its way: one choice per sequence.
type generation struct {
	request *openai.Request
	model   *model
	choices []*choice
	wake    chan struct{} // a call has something
	open    int           // choices that go on
	began   time.Time
	first   time.Time // when the first token came
}

// choice is one sequence, and what was made of its tokens.
type choice struct {
	call    *Call
	prompt  []uint32
	text    string // of the prompt, for echo
	decoder *tokenizer.Stream
	stopper *tokenizer.Stopper
	taken   int // tokens that were turned into text
	cached  uint32
	finish  string // "": it goes on
	begun   bool   // a piece was written
}

// piece is what is written at once for a choice.
type piece struct {
	index    int
	text     string
	tokens   []uint32
	logprobs []*messages.TokenLogprobs
	finish   string // with the last one
	first    bool
}

// prepare looks the model up and turns the prompts into sequences.
func (g *Gateway) prepare(ctx context.Context, r *openai.Request) (*generation, error) {
	d, err := g.cfg.Directory.Deployment(ctx, r.Model)
	if err != nil {
		return nil, asError(err)
	}
	m, err := g.models.of(d)
	if err != nil {
		return nil, err
	}
	prompts, err := m.encode(r)
	if err != nil {
		return nil, err
	}
	gen := &generation{request: r, model: m, wake: make(chan struct{}, 1), began: time.Now()}
	priority := r.Priority
	if priority == messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED {
		priority = d.GetSpec().GetPriority()
	}
	seed := newSeed()
	if r.Seed != nil {
		seed = *r.Seed
	}
	deadline := timestamppb.New(gen.began.Add(r.Timeout))
	for i, tokens := range prompts {
		limit, err := m.limit(r, tokens)
		if err != nil {
			return nil, err
		}
		for n := range r.N {
			sampling := proto.Clone(r.Sampling).(*messages.SamplingParams)
			sampling.Seed, sampling.MaxTokens = seed+uint64(n), limit
			c := &choice{
				prompt: tokens, decoder: m.tokenizer.NewStream(true), stopper: tokenizer.NewStopper(r.Stop),
				call: &Call{ID: newID(), wake: gen.wake, Sequence: &messages.SequenceSpec{
					Model: r.Model, Prompt: tokens, Sampling: sampling, Priority: priority, Deadline: deadline,
				}},
			}
			c.decoder.Continue()
			if r.Echo {
				c.text = r.Prompts[i].Text
				if r.Prompts[i].Tokens != nil {
					c.text = m.tokenizer.Decode(tokens, true)
				}
			}
			gen.choices = append(gen.choices, c)
		}
	}
	gen.open = len(gen.choices)
	return gen, nil
}

// encode turns a request's prompts into tokens.
func (m *model) encode(r *openai.Request) ([][]uint32, error) {
	if r.Chat {
		if m.template == nil {
			return nil, openai.Refusal(messages.Reason_REASON_UNSUPPORTED, m.noChat.Error())
		}
		turns := make([]chat.Message, len(r.Messages))
		for i, t := range r.Messages {
			turns[i] = chat.Message(t)
		}
		text, err := m.template.Render(turns, true)
		if err != nil {
			return nil, openai.Invalid("messages", err.Error())
		}
		return [][]uint32{m.tokenizer.Encode(text, !m.begins(text))}, nil
	}
	all := make([][]uint32, len(r.Prompts))
	for i, p := range r.Prompts {
		all[i] = p.Tokens
		if p.Tokens == nil {
			all[i] = m.tokenizer.Encode(p.Text, true)
		}
		if len(all[i]) == 0 {
			return nil, openai.Invalid("prompt", "the prompt is empty, and the model has no token that begins a text")
		}
		for _, id := range all[i] {
			if int(id) >= m.vocab {
				return nil, openai.Invalid("prompt", fmt.Sprintf("token %d is not in the vocabulary of %d", id, m.vocab))
			}
		}
	}
	return all, nil
}

// begins reports whether a rendered chat brings its own token that begins a text.
func (m *model) begins(text string) bool {
	bare, begun := m.tokenizer.Encode(text, false), m.tokenizer.Encode("", true)
	return len(begun) > 0 && len(bare) > 0 && bare[0] == begun[0]
}

// limit is how many tokens may be generated after a prompt.
func (m *model) limit(r *openai.Request, prompt []uint32) (uint32, error) {
	room := m.context - len(prompt)
	if room < 1 || int64(r.MaxTokens) > int64(room) {
		return 0, openai.Refusal(messages.Reason_REASON_TOO_LONG, fmt.Sprintf(
			"the model's context is %d tokens; the prompt has %d and max_tokens is %d; shorten one of them", m.context, len(prompt), r.MaxTokens))
	}
	if r.MaxTokens == 0 {
		return uint32(room), nil
	}
	return r.MaxTokens, nil
}

// asError finds the reason in an error.
func asError(err error) *openai.Error {
	var known *openai.Error
	var refused interface{ GetReason() messages.Reason }
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		return openai.Refusal(refused.GetReason(), err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, actor.ErrTimeout):
		return openai.Refusal(messages.Reason_REASON_DEADLINE, "the request's time is up")
	}
	return openai.Refusal(messages.Reason_REASON_INTERNAL, err.Error())
}

// run opens the calls and gives every piece of text to write, until all choices are finished, one has failed, or ctx ends.
// Whatever the actors do, it returns soon after the request's deadline.
func (g *Gateway) run(ctx context.Context, gen *generation, write func(piece) error) error {
	for _, c := range gen.choices {
		g.cfg.Calls.add(c.call)
		g.cfg.Root.Send(g.cfg.Actor, &messages.OpenSession{RequestId: c.call.ID})
	}
	defer g.close(gen)
	late := time.NewTimer(gen.request.Timeout + grace)
	defer late.Stop()
	for gen.open > 0 {
		select {
		case <-gen.wake:
		case <-ctx.Done():
			return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
		case <-late.C:
			return openai.Refusal(messages.Reason_REASON_DEADLINE, "the request's time is up; raise timeout, or lower max_tokens")
		}
		for i, c := range gen.choices {
			if err := g.advance(gen, i, c, write); err != nil {
				return err
			}
		}
	}
	return nil
}

// close ends the calls; sessions that still run are told.
func (g *Gateway) close(gen *generation) {
	for _, c := range gen.choices {
		g.cfg.Calls.remove(c.call.ID)
		if p := c.call.since(0); p.finish == messages.FinishReason_FINISH_REASON_UNSPECIFIED && p.refused == nil {
			g.cfg.Root.Send(g.cfg.Actor, &messages.CloseSession{RequestId: c.call.ID})
		}
	}
}

// advance writes what a choice has new.
func (g *Gateway) advance(gen *generation, index int, c *choice, write func(piece) error) error {
	if c.finish != "" {
		return nil
	}
	p := c.call.since(c.taken)
	if p.refused != nil {
		return openai.FromRefused(p.refused)
	}
	if len(p.tokens) == 0 && p.finish == messages.FinishReason_FINISH_REASON_UNSPECIFIED {
		return nil
	}
	if gen.first.IsZero() {
		gen.first = time.Now()
	}
	out := piece{index: index, logprobs: p.logprobs, first: !c.begun}
	c.begun, c.cached = true, p.cached
	if out.first {
		out.text = c.text
	}
	for _, id := range p.tokens {
		c.taken++
		out.tokens = append(out.tokens, id)
		text, stopped := c.stopper.Push(c.decoder.Push(id))
		out.text += text
		if stopped {
			c.finish = finishStop
			break
		}
	}
	out.logprobs = out.logprobs[:min(len(out.logprobs), len(out.tokens))]
	if c.finish == "" && p.finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED {
		text, stopped := c.stopper.Push(c.decoder.Flush())
		out.text += text + c.stopper.Flush()
		c.finish = finishOf(p.finish, stopped)
	}
	if out.finish = c.finish; c.finish != "" {
		gen.open--
	}
	if out.text == "" && out.finish == "" && len(out.logprobs) == 0 && !out.first {
		return nil // held back
	}
	return write(out)
}

const (
	finishStop   = "stop"
	finishLength = "length"
)

func finishOf(reason messages.FinishReason, stopped bool) string {
	if stopped || reason == messages.FinishReason_FINISH_REASON_STOP {
		return finishStop
	}
	return finishLength
}

// usage counts tokens: each prompt once, each output.
func (gen *generation) usage() openai.Usage {
	var u openai.Usage
	for i, c := range gen.choices {
		if i%gen.request.N == 0 {
			u.Prompt += len(c.prompt)
			u.Cached += int(c.cached)
		}
		u.Completion += c.taken
	}
	return u
}

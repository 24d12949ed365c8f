package gateway

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/gateway/openai"
	"troupe/messages"
	"troupe/modelfile/chat"
)

// encode tokenizes the prompts of a request and creates its choices, one per sequence.
func (g *Gateway) encode(ctx context.Context, gen *generation) error {
	ctx, cancel := gen.untilDeadline(ctx)
	defer cancel()
	prompts, err := g.encodePrompts(ctx, gen.model, gen.req)
	if err != nil {
		return err
	}
	return gen.newChoices(prompts)
}

// newChoices creates the choices of each prompt. If a prompt fills KV blocks, its first choice
// leads: the others start when its blocks can be reused.
func (gen *generation) newChoices(prompts [][]uint32) error {
	seed := gen.rt.Uint64()
	if gen.req.Seed != nil {
		seed = *gen.req.Seed
	}
	for i, tokens := range prompts {
		limit, err := gen.model.maxOutput(gen.req, tokens)
		if err != nil {
			return err
		}
		lead := gen.addChoice(i, tokens, seed, limit)
		for n := 1; n < gen.req.N; n++ {
			c := gen.addChoice(i, tokens, seed+uint64(n), limit)
			if len(tokens) > gen.blockTokens {
				c.isFollower, lead.followers = true, append(lead.followers, c)
			}
		}
	}
	gen.unfinished = len(gen.choices)
	return nil
}

// addChoice adds a choice for a prompt.
func (gen *generation) addChoice(prompt int, tokens []uint32, seed uint64, limit uint32) *choice {
	req, sampling := gen.req, gen.req.Sampling
	if len(gen.choices) > 0 { // the first choice uses the request's own copy
		sampling = proto.Clone(sampling).(*messages.SamplingParams)
	}
	sampling.Seed, sampling.MaxTokens = seed, limit
	c := newChoice(len(gen.choices), gen.model.tokenizer, req, tokens)
	c.call = &Call{ID: newID(gen.rt), wake: gen.wake, Sequence: &messages.SequenceSpec{
		Model: gen.deployment, Adapter: gen.adapter.GetName(), AdapterSpec: gen.adapter,
		Prompt: tokens, Sampling: sampling, Priority: req.Priority,
		Deadline: timestamppb.New(gen.deadline), CacheSalt: gen.salt,
		Client: gen.client.Name, Weight: gen.weight, Wait: req.Wait, Arrived: timestamppb.New(gen.began),
	}}
	if req.Echo {
		c.echo(req.Prompts[prompt], gen.model.tokenizer, !req.KeepSpecial)
	}
	gen.choices = append(gen.choices, c)
	return c
}

// encodePrompts tokenizes the prompts of a request and drops text that is no longer needed.
func (g *Gateway) encodePrompts(ctx context.Context, m *model, req *openai.Request) ([][]uint32, error) {
	for id := range req.Sampling.GetLogitBias() {
		if int(id) >= m.vocab {
			return nil, openai.Invalid("logit_bias", m.unknownToken(id))
		}
	}
	for _, id := range req.Sampling.GetAllowedTokenIds() {
		if int(id) >= m.vocab {
			return nil, openai.Invalid("allowed_token_ids", m.unknownToken(id))
		}
	}
	opts, err := m.promptOptions(req)
	if err != nil {
		return nil, err
	}
	if req.Chat {
		tokens, err := g.encodeTurns(ctx, m, req.Messages, req.Template, opts)
		req.Messages = nil
		return [][]uint32{tokens}, err
	}
	all := make([][]uint32, len(req.Prompts))
	for i := range req.Prompts {
		var err error
		if all[i], err = g.encodePrompt(ctx, m, &req.Prompts[i], opts); err != nil {
			return nil, err
		}
		if req.Echo && opts.keepLast > 0 {
			req.Prompts[i].Tokens = all[i] // truncated tokens are not echoed
		}
		if !req.Echo {
			req.Prompts[i].Text = ""
		}
		if len(all[i]) == 0 {
			return nil, openai.Invalid("prompt",
				"the prompt is empty and the model has no begin-of-text token; send a prompt")
		}
		for _, id := range all[i] {
			if int(id) >= m.vocab {
				return nil, openai.Invalid("prompt", m.unknownToken(id))
			}
		}
	}
	return all, nil
}

func (m *model) unknownToken(id uint32) string {
	return fmt.Sprintf("token %d is not in the model's vocabulary of %d", id, m.vocab)
}

// encodePrompt returns the tokens of one prompt, or an error if it cannot fit the context.
func (g *Gateway) encodePrompt(ctx context.Context, m *model, p *openai.Prompt, opts promptOptions) ([]uint32, error) {
	switch {
	case p.Count() == 0:
		return g.encodeText(ctx, m, p.Text, opts)
	case opts.keepLast > 0:
		p.ReadLast(opts.keepLast)
	case p.Count() >= m.context:
		return nil, m.tooLong(p.Count())
	default:
		p.ReadTokens()
	}
	return p.Tokens, nil
}

// encodeText tokenizes a text, or returns an error if it cannot fit the context. A text that is far
// too long is refused by its size, since tokenizing it takes seconds.
func (g *Gateway) encodeText(ctx context.Context, m *model, text string, opts promptOptions) ([]uint32, error) {
	if err := m.checkLength(m.tokenizer.LeastTokens(text), opts); err != nil {
		return nil, err
	}
	done, err := g.budget.acquireTokenizer(ctx, len(text))
	if err != nil {
		return nil, err
	}
	defer done()
	tokens, err := m.tokenizer.EncodeContext(ctx, text, opts.addSpecial)
	if err != nil || opts.keepLast == 0 {
		return tokens, err
	}
	return m.tokenizer.Last(tokens, opts.addSpecial, opts.keepLast), nil
}

func (m *model) tooLong(minTokens int) *openai.Error {
	return openai.Refusal(messages.Reason_REASON_TOO_LONG, fmt.Sprintf(
		"the model's context is %d tokens, and the prompt has %d or more; shorten it", m.context, minTokens))
}

// encodeTurns renders a chat with the model's template and tokenizes it. As apply_chat_template of
// transformers does, it adds no special tokens beyond the template's own unless the client requests
// them.
func (g *Gateway) encodeTurns(
	ctx context.Context, m *model, turns []openai.Message, o openai.ChatOptions, opts promptOptions,
) ([]uint32, error) {
	if m.template == nil {
		return nil, openai.Refusal(messages.Reason_REASON_UNSUPPORTED, m.templateErr.Error())
	}
	// A template includes every message, and LeastTokens rounds each one up by less than a token.
	minTokens := -len(turns)
	for _, t := range turns {
		minTokens += m.tokenizer.LeastTokens(t.Content)
	}
	if err := m.checkLength(minTokens, opts); err != nil {
		return nil, err
	}
	text, err := m.render(turns, o)
	if err != nil {
		return nil, err
	}
	tokens, err := g.encodeText(ctx, m, text, opts)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, openai.Invalid("messages", "the chat template rendered no text")
	}
	return tokens, nil
}

// render renders a chat with the model's template.
func (m *model) render(turns []openai.Message, o openai.ChatOptions) (string, error) {
	extra := make(map[string]any, len(o.Kwargs))
	for name, value := range o.Kwargs {
		extra[name] = value
	}
	text, err := m.template.RenderWith(turns, o.AddGenerationPrompt, extra)
	if err != nil {
		return "", openai.Invalid("messages", err.Error())
	}
	if !o.ContinueFinalMessage {
		return text, nil
	}
	if text, err = chat.Continued(text, turns[len(turns)-1].Content); err != nil {
		return "", openai.Invalid("continue_final_message", err.Error())
	}
	return text, nil
}

// maxOutput returns the maximum number of tokens to generate after a prompt.
func (m *model) maxOutput(req *openai.Request, prompt []uint32) (uint32, error) {
	room := m.context - len(prompt)
	if room < 1 || int64(req.MaxTokens) > int64(room) {
		return 0, openai.Refusal(messages.Reason_REASON_TOO_LONG, fmt.Sprintf(
			"the model's context is %d tokens; the prompt has %d and max_tokens is %d; reduce one of them",
			m.context, len(prompt), req.MaxTokens))
	}
	limit := req.MaxTokens
	switch {
	case limit > 0:
	case req.Chat:
		limit = uint32(room)
	default:
		limit = uint32(min(room, openai.CompletionTokens))
	}
	if minTokens := req.Sampling.GetMinTokens(); minTokens > limit {
		return 0, openai.Invalid("min_tokens",
			fmt.Sprintf("min_tokens is %d, and the context has room for %d; shorten the prompt", minTokens, limit))
	}
	return limit, nil
}

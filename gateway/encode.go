package gateway

import (
	"context"
	"fmt"

	"troupe/engine/chat"
	"troupe/gateway/openai"
	"troupe/messages"
)

// encode turns a request's prompts into tokens, and forgets the text that is not needed any more.
func (g *Gateway) encode(ctx context.Context, m *model, r *openai.Request) ([][]uint32, error) {
	for id := range r.Sampling.GetLogitBias() {
		if int(id) >= m.vocab {
			return nil, openai.Invalid("logit_bias", m.stranger(id))
		}
	}
	if r.Chat {
		tokens, err := g.encodeTurns(ctx, m, r.Messages, true)
		r.Messages = nil
		return [][]uint32{tokens}, err
	}
	all := make([][]uint32, len(r.Prompts))
	for i := range r.Prompts {
		var err error
		if all[i], err = g.encodePrompt(ctx, m, &r.Prompts[i]); err != nil {
			return nil, err
		}
		if !r.Echo {
			r.Prompts[i].Text = ""
		}
		if len(all[i]) == 0 {
			return nil, openai.Invalid("prompt", "the prompt is empty, and the model has no token that begins a text")
		}
		for _, id := range all[i] {
			if int(id) >= m.vocab {
				return nil, openai.Invalid("prompt", m.stranger(id))
			}
		}
	}
	return all, nil
}

func (m *model) stranger(id uint32) string {
	return fmt.Sprintf("token %d is not in the model's vocabulary of %d", id, m.vocab)
}

// encodePrompt turns one prompt into tokens, unless it cannot fit.
func (g *Gateway) encodePrompt(ctx context.Context, m *model, p *openai.Prompt) ([]uint32, error) {
	if p.Count() > 0 {
		if p.Count() >= m.context {
			return nil, m.tooLong(p.Count())
		}
		p.ReadTokens()
		return p.Tokens, nil
	}
	return g.encodeText(ctx, m, p.Text, true)
}

// encodeText turns a text into tokens, unless it cannot fit. Text that is far too long is refused
// by its bytes: to tokenize it takes seconds.
func (g *Gateway) encodeText(ctx context.Context, m *model, text string, special bool) ([]uint32, error) {
	if least := m.tokenizer.LeastTokens(text); least >= m.context {
		return nil, m.tooLong(least)
	}
	done, err := g.budget.turn(ctx, len(text))
	if err != nil {
		return nil, err
	}
	defer done()
	return m.tokenizer.EncodeContext(ctx, text, special)
}

func (m *model) tooLong(least int) *openai.Error {
	return openai.Refusal(messages.Reason_REASON_TOO_LONG, fmt.Sprintf(
		"the model's context is %d tokens, and the prompt has %d or more; shorten it", m.context, least))
}

// encodeTurns renders turns with the model's template, and the beginning of an answer where the model
// is to give one. The special tokens are those that the template writes: none is added, as in
// apply_chat_template of transformers.
func (g *Gateway) encodeTurns(ctx context.Context, m *model, turns []openai.Message, answer bool) ([]uint32, error) {
	if m.template == nil {
		return nil, openai.Refusal(messages.Reason_REASON_UNSUPPORTED, m.noChat.Error())
	}
	all, least := make([]chat.Message, len(turns)), 0
	for i, t := range turns {
		all[i] = chat.Message(t)
		least += m.tokenizer.LeastTokens(t.Content)
	}
	if least >= m.context+len(turns) { // each is rounded up; templates write all the messages
		return nil, m.tooLong(least - len(turns))
	}
	text, err := m.template.Render(all, answer)
	if err != nil {
		return nil, openai.Invalid("messages", err.Error())
	}
	tokens, err := g.encodeText(ctx, m, text, false)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, openai.Invalid("messages", "the chat template made no text of the messages")
	}
	return tokens, nil
}

// limit is how many tokens may be generated after a prompt.
func (m *model) limit(r *openai.Request, prompt []uint32) (uint32, error) {
	room := m.context - len(prompt)
	if room < 1 || int64(r.MaxTokens) > int64(room) {
		return 0, openai.Refusal(messages.Reason_REASON_TOO_LONG, fmt.Sprintf(
			"the model's context is %d tokens; the prompt has %d and max_tokens is %d; shorten one of them", m.context, len(prompt), r.MaxTokens))
	}
	limit := r.MaxTokens
	switch {
	case limit > 0:
	case r.Chat:
		limit = uint32(room)
	default:
		limit = uint32(min(room, openai.CompletionTokens))
	}
	if least := r.Sampling.GetMinTokens(); least > limit {
		return 0, openai.Invalid("min_tokens", fmt.Sprintf("min_tokens is %d, and the context has room for %d; shorten the prompt", least, limit))
	}
	return limit, nil
}

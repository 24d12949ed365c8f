package gateway

import (
	"fmt"

	"troupe/engine/chat"
	"troupe/gateway/openai"
	"troupe/messages"
)

// encode turns a request's prompts into tokens.
func (m *model) encode(r *openai.Request) ([][]uint32, error) {
	for id := range r.Sampling.GetLogitBias() {
		if int(id) >= m.vocab {
			return nil, openai.Invalid("logit_bias", m.stranger(id))
		}
	}
	if r.Chat {
		tokens, err := m.encodeChat(r.Messages)
		return [][]uint32{tokens}, err
	}
	all := make([][]uint32, len(r.Prompts))
	for i, p := range r.Prompts {
		if all[i] = p.Tokens; p.Tokens == nil {
			all[i] = m.tokenizer.Encode(p.Text, true)
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

// encodeChat renders the turns of a request, which the model is to answer.
func (m *model) encodeChat(turns []openai.Message) ([]uint32, error) {
	return m.encodeTurns(turns, true)
}

// encodeTurns renders turns with the model's template, and what has the model answer where it is
// to. The special tokens are those that the template writes: none is added, as transformers'
// apply_chat_template adds none.
func (m *model) encodeTurns(turns []openai.Message, answer bool) ([]uint32, error) {
	if m.template == nil {
		return nil, openai.Refusal(messages.Reason_REASON_UNSUPPORTED, m.noChat.Error())
	}
	all := make([]chat.Message, len(turns))
	for i, t := range turns {
		all[i] = chat.Message(t)
	}
	text, err := m.template.Render(all, answer)
	if err != nil {
		return nil, openai.Invalid("messages", err.Error())
	}
	tokens := m.tokenizer.Encode(text, false)
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

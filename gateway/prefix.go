package gateway

import (
	"context"
	"fmt"

	"troupe/gateway/openai"
	"troupe/messages"
)

// EncodePrefix tokenizes the beginning of prompts of a model: text, as in a completion, or the
// first turns of a chat. Its errors are of type *openai.Error.
func (g *Gateway) EncodePrefix(
	ctx context.Context, name, text string, turns []openai.Message,
) (tokens []uint32, err error) {
	defer recoverPanic(g.cfg.Log, &err)
	d, err := g.deployment(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := g.models.get(ctx, d)
	if err != nil {
		return nil, err
	}
	if len(turns) > 0 {
		tokens, err = g.encodeTurns(ctx, m, turns, openai.ChatOptions{}, promptOptions{})
	} else {
		tokens, err = g.encodeText(ctx, m, text, promptOptions{addSpecial: true})
	}
	if err != nil {
		return nil, err
	}
	return tokens, m.checkPrefix(tokens)
}

// checkPrefix returns an error if tokens are too long for a prompt of the model. All tokens must be
// in the vocabulary.
func (m *model) checkPrefix(tokens []uint32) error {
	if len(tokens) < m.context {
		return nil
	}
	return openai.Refusal(messages.Reason_REASON_TOO_LONG, fmt.Sprintf(
		"the prefix has %d tokens, and the model's context is %d: no prompt can begin with it; send a shorter one",
		len(tokens), m.context))
}

// CheckPrefix returns an error if tokens are not a valid prefix of a model's prompts.
func (g *Gateway) CheckPrefix(ctx context.Context, name string, tokens []uint32) error {
	d, err := g.deployment(ctx, name)
	if err != nil {
		return err
	}
	m, err := g.models.get(ctx, d)
	if err != nil {
		return err
	}
	for _, id := range tokens {
		if int(id) >= m.vocab {
			return openai.Refusal(messages.Reason_REASON_INVALID_ARGUMENT, m.unknownToken(id))
		}
	}
	return m.checkPrefix(tokens)
}

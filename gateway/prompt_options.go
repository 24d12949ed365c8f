package gateway

import (
	"fmt"

	"troupe/gateway/openai"
)

// promptOptions is what becomes of a prompt's tokens.
type promptOptions struct {
	addSpecial bool // the tokens that the model expects around a text are added
	keepLast   int  // only so many of the last tokens are kept; 0: all
}

// maxTruncation is how many times the context a prompt may have that is cut: all of it is tokenized.
const maxTruncation = 4

// promptOptions returns what a request asks for.
func (m *model) promptOptions(r *openai.Request) (promptOptions, error) {
	f := promptOptions{addSpecial: r.AddSpecial, keepLast: r.Truncate}
	if f.keepLast > m.context {
		return f, openai.Invalid("truncate_prompt_tokens", fmt.Sprintf(
			"truncate_prompt_tokens is %d; the model's context is %d tokens", f.keepLast, m.context))
	}
	if f.keepLast < 0 {
		f.keepLast = max(1, m.context-max(1, int(r.MaxTokens)))
	}
	return f, nil
}

// checkLength reports a prompt that cannot fit: one of that many tokens or more.
func (m *model) checkLength(least int, f promptOptions) error {
	switch {
	case f.keepLast == 0 && least >= m.context:
		return m.tooLong(least)
	case least >= maxTruncation*m.context:
		e := m.tooLong(least)
		e.Message = fmt.Sprintf("the prompt has %d tokens or more; truncate_prompt_tokens cuts at most %d times "+
			"the model's context of %d: shorten the prompt", least, maxTruncation, m.context)
		return e
	}
	return nil
}
